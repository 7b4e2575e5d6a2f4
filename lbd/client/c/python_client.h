/* The Python client: the reference, for whatever the compiled one does not do itself.

   An installer of wheels writes the interpreter into the client's first line, and nothing behind it.
   So it is started from here, bare: no `site`, no user's PYTHON* settings, two thirds of the time. */

#include <sys/auxv.h>

#ifndef PYTHON_CLIENT /* tests name another */
#define PYTHON_CLIENT NULL
#endif

enum { BESIDE_MAX = PATH_MAX + 16 };

/* A program on PATH; false if there is none of that name. */
static bool on_path(const char *name, char room[BESIDE_MAX]) {
    for (const char *at = getenv("PATH") ?: ""; *at; at += strcspn(at, ":"), at += *at == ':') {
        int size = snprintf(room, BESIDE_MAX, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (*room == '/' && size < BESIDE_MAX && !access(room, X_OK)) return true;
    }
    return false;
}

/* A program in the directory of this one; where there is no /proc, as this one was called. Of a copy
   that stands elsewhere alone, the one on PATH. */
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

/* The path of the client, if it cannot be started; errno says why. */
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
