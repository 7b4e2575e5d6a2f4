/* Starts the Python client, the reference, which handles whatever the compiled one does not.

   A wheel installer writes only the interpreter into the client's first line, without options.
   Starting it from here allows a bare start, without `site` and the user's PYTHON* settings,
   which takes two thirds of the time. */

#include <sys/auxv.h>

#ifndef PYTHON_CLIENT /* tests name another */
#define PYTHON_CLIENT NULL
#endif

enum { BESIDE_MAX = PATH_MAX + 16 };

/* Finds a program on PATH; returns false if there is none of that name. */
static bool on_path(const char *name, char room[BESIDE_MAX]) {
    for (const char *at = getenv("PATH") ?: ""; *at; at += strcspn(at, ":"), at += *at == ':') {
        int size = snprintf(room, BESIDE_MAX, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (*room == '/' && size < BESIDE_MAX && !access(room, X_OK)) return true;
    }
    return false;
}

/* Returns a program in this program's directory, which without /proc is found by the name it was
   called by. A copy installed alone elsewhere uses the one on PATH. */
static char *beside(const char *name, char room[BESIDE_MAX]) {
    ssize_t size = readlink("/proc/self/exe", room, PATH_MAX);
    room[size > 0 ? size : 0] = 0;
    const char *called = (const char *)getauxval(AT_EXECFN);
    if (!*room && (!called || !realpath(called, room))) *room = 0;
    char *slash = strrchr(room, '/');
    if (slash) strcpy(slash + 1, name);
    if (!*room || access(room, X_OK)) {
        static char found[BESIDE_MAX];
        if (on_path(name, found)) strcpy(room, found);
    }
    return room;
}

/* Returns only if the client cannot be started: its path, with errno set. */
static const char *become_python_client(const char *name, char **words) {
    static char path[BESIDE_MAX], line[PATH_MAX];
    const char *client = PYTHON_CLIENT ?: beside(name, path);
    int file = open(client, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    line[size > 0 ? size : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    char *program = strrchr(line, '/');
    size_t count = 0;
    while (words[count]) count++;
    char **bare = calloc(count + 4, sizeof *bare);
    if (bare && count && !strncmp(line, "#!/", 3) && !strncmp(program, "/python", 7)) {
        bare[0] = line + 2;
        bare[1] = "-IS";
        bare[2] = (char *)client;
        memcpy(bare + 3, words + 1, count * sizeof *bare);
        execv(*bare, bare);
    }
    execv(client, words);
    return client;
}
