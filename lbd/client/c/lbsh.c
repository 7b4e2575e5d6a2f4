/* lbsh, compiled: make starts one for each line, and starting a Python takes as long as a small
   compilation saves by moving.

   It handles `-c STRING` and `SCRIPT ARGS` while the shims match the stamp (shell/shims.py
   explains them and the format). All other and all doubtful cases go to the Python client
   (shell/lbsh.py), which is the reference, with the original arguments and environment. */

#define NO_MEMORY leave_it()
static _Noreturn void leave_it(void);
#include "../../launch/program.h"
#include "python_client.h"
#include "own_places.h"

#include <sys/utsname.h>
#include <time.h>

#define FORMAT "lbd-shims 1\n"
enum { FRESH_S = 30, FILE_MAX = 1 << 16, FAILED = 126 };

static char **arguments;
static bool is_stale; /* the Python client must ask the LBM again */

static const char *const NOT_PROGRAMS[] = { /* keywords; builtins */
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "time", "coproc",
    ".", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "chdir", "command",
    "compgen", "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable",
    "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history",
    "jobs", "kill", "let", "local", "logout", "mapfile", "newgrp", "popd", "printf", "pushd", "pwd",
    "read", "readarray", "readonly", "return", "set", "setvar", "shift", "shopt", "source",
    "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias",
    "unset", "wait",
    "env", "printenv"}; /* env and printenv show a shell's changes to the environment */
/* Variables that a shell sets itself or acts on. */
static const char *const TOUCHY[] = {"IFS", "OPTIND", "PPID", "PS1", "PS2", "PS4", "OLDPWD",
                                     "BASH_ENV", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT", "ENV",
                                     "FUNCNEST", "UID", "EUID"};
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%="
#define NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+/"
#define VARIABLE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static char *find_front(void) /* the lbrun beside us, the target of a shim's link */
{
    static char path[BESIDE_MAX];
    beside("lbrun", path);
    return access(path, X_OK) ? "" : path;
}

static _Noreturn void leave_it(void)
{
    const char *client = "lbsh-python";
    size_t count = 0;
    while (arguments[count])
        count++;
    char **more = calloc(count + 4, sizeof *more);
    if (more) { /* pass argv[0] along: a script does not learn it */
        memcpy(more + 4, arguments + 1, count * sizeof *more);
        more[0] = "lbsh";
        more[1] = is_stale ? "--stale" : "--called";
        more[2] = arguments[0];
        more[3] = find_front();
        client = become_python_client(client, more);
    }
    dprintf(2, "lbsh: %s: %s\n", client, strerror(errno));
    _exit(FAILED);
}

/* Returns a file's text, or NULL if it cannot be read. `flags`: further flags of open. */
static char *read_file(int directory, const char *path, int flags, struct stat *status)
{
    char *room = malloc(FILE_MAX + 1);
    if (!room)
        return NULL;
    int file = openat(directory, path, O_RDONLY | O_CLOEXEC | flags);
    if (file < 0)
        return NULL;
    ssize_t size = fstat(file, status) ? -1 : read(file, room, FILE_MAX);
    close(file);
    room[size > 0 ? size : 0] = 0;
    return size < 0 || size == FILE_MAX ? NULL : room;
}

static const char *variable(const char *name)
{
    return getenv(name) ?: "";
}

/* -- where the shims are, and whether they are current (shell/shims.py) ------------------------ */

static char *config_path(void)
{
    char *own = text("%s/.config/lbd/lbd.toml", variable("HOME"));
    if (*variable("LBD_CONFIG"))
        return text("%s", variable("LBD_CONFIG"));
    if (!access(own, R_OK) && (geteuid() || is_ours_alone(own))) /* root may have another's HOME */
        return own;
    return !access("/etc/lbd/lbd.toml", R_OK) ? "/etc/lbd/lbd.toml" : "";
}

static char *state_dir_of(const char *config)
{
    struct stat status;
    char *content = *config ? read_file(AT_FDCWD, config, O_NONBLOCK, &status) : NULL;
    char *line = content ? strstr(text("\n%s", content), "\nstate_dir = \"") : NULL;
    if (!line)
        return "";
    line += strlen("\nstate_dir = \"");
    line[strcspn(line, "\"")] = 0;
    return strchr(line, '\\') ? "" : line;
}

/* Where nobody else may write, and which nobody else can replace by another. */
static bool is_closed(const char *directory)
{
    struct stat status;
    return !stat(directory, &status) && status.st_uid == geteuid() && !(status.st_mode & 022) &&
           is_ours_alone(directory);
}

static char *base_directory(const char *config)
{
    struct utsname here;
    char *home = text("%s/.local/state", variable("HOME"));
    const char *places[] = {state_dir_of(config), variable("XDG_STATE_HOME"), home};
    uname(&here);
    for (int i = 0; i < 3; i++)
        if (is_closed(places[i]))
            return text("%s/lbd-shims-%s", places[i], here.nodename);
    if (is_closed(variable("HOME")))
        return text("%s/lbd-shims-%s", home, here.nodename);
    return text("/var/tmp/lbd-shims-%d-%s", (int)geteuid(), here.nodename);
}

/* Opens a directory that belongs to us and where nobody else may write, so its contents are ours
   and stay the same. */
static int open_ours(int above, const char *name)
{
    struct stat status;
    int directory = openat(above, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0 || fstat(directory, &status) || status.st_uid != geteuid() ||
        status.st_mode & 022)
        leave_it();
    return directory;
}

/* Returns PATH without the entries below `base`, and with `shims`, if given, before the first
   absolute entry. */
static char *path_with(const char *path, const char *base, const char *shims)
{
    char *made = "", *inside = text("%s/", base);
    bool first = true;
    for (const char *from = path, *end;; from = end + 1) {
        end = strchrnul(from, ':');
        if (strncmp(from, inside, strlen(inside))) {
            if (shims && *from == '/') {
                made = text("%s%s%s", made, first ? "" : ":", shims);
                shims = NULL;
                first = false;
            }
            made = text("%s%s%.*s", made, first ? "" : ":", (int)(end - from), from);
            first = false;
        }
        if (!*end)
            return shims ? text("%s:%s", made, shims) : made;
    }
}

static uint64_t hash(uint64_t value, const char *words, bool more)
{
    for (; *words; words++)
        value = (value ^ (unsigned char)*words) * 0x100000001b3u;
    return more ? value * 0x100000001b3u : value; /* as for a zero byte */
}

static char *circumstance(const char *entry)
{
    struct stat status;
    bool there = *entry == '/' && !stat(entry, &status);
    long long at_ns = there ? status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec : 0;
    return text("%lld %s\n", at_ns, entry);
}

static char *circumstances(char *path, const char *config, const char *shell, const char *front)
{
    char *made = "\nP\n";
    for (char *entry; (entry = strsep(&path, ":"));)
        made = text("%s%s", made, circumstance(entry));
    return text("%s%s%s\n%s\n", made, circumstance(config), shell, front);
}

static char *stamped(char *head, char letter) /* returns a value of the stamp's head */
{
    char *line = strstr(head, text("\n%c ", letter));
    if (!line)
        leave_it();
    return text("%.*s", (int)strcspn(line + 3, "\n"), line + 3);
}

/* Sets PATH and LBD_SHIMS; returns the real shell. */
static char *set_up(void)
{
    char *config = config_path(), *base = base_directory(config), *front = find_front();
    char *path = path_with(variable("PATH"), base, NULL);
    char *outer = text("%s", variable("LBD_SHIMS")); /* of an lbsh with another home or configuration */
    for (int i = 0; i < 2; i++)
        *(strrchr(outer, '/') ?: outer) = 0;
    if (*outer)
        path = path_with(path, outer, NULL);
    if (!*front || !*path)
        leave_it();
    uint64_t key = hash(0xcbf29ce484222325u, path, true);
    key = hash(hash(key, variable("LBD_SHELL"), true), config, true);
    key = hash(key, front, false);
    char *name = text("%016llx", (unsigned long long)key);
    int directory = open_ours(open_ours(AT_FDCWD, base), name);
    struct stat status;
    char *stamp = read_file(directory, "stamp", O_NOFOLLOW | O_NONBLOCK, &status);
    if (!stamp || status.st_uid != geteuid() || strncmp(stamp, FORMAT, strlen(FORMAT)))
        leave_it();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *now_so = circumstances(text("%s", path), config, variable("LBD_SHELL"), front);
    char *then = strstr(stamp, "\nP\n");
    time_t age_s = now.tv_sec - status.st_mtim.tv_sec;
    if (!then || strcmp(then, now_so))
        leave_it();
    if (age_s < 0 || age_s >= FRESH_S) {
        is_stale = !utimensat(directory, "stamp", NULL, AT_SYMLINK_NOFOLLOW);
        leave_it();
    }
    *then = 0;
    char *shims = text("%s/%s/%s", base, name, stamped(stamp, 'N'));
    setenv("LBD_SHIMS", shims, 1);
    setenv("PATH", path_with(path, base, shims), 1);
    return stamped(stamp, 'S');
}

/* -- one simple command (shell/words.py, shell/direct.py) -------------------------------------- */

static bool is_in(const char *word, const char *const *list, size_t count)
{
    while (count--)
        if (!strcmp(word, list[count]))
            return true;
    return false;
}
#define IS_IN(word, list) is_in(word, list, sizeof(list) / sizeof *(list))

/* Returns the words of a simple command, NULL if a shell must parse it. */
static char **split(const char *from)
{
    size_t size = strlen(from) + 1, count = 0;
    char **words = calloc(size, sizeof *words), *to = malloc(2 * size);
    if (!words || !to)
        return NULL;
    while (*(from += strspn(from, " \t"))) {
        words[count++] = to;
        while (*from && !strchr(" \t", *from)) {
            char quote = *from;
            if (strchr(PLAIN, quote)) {
                *to++ = *from++;
            } else if (quote == '\\') {
                if (from[1] < 32 || from[1] > 126)
                    return NULL;
                *to++ = from[1];
                from += 2;
            } else if (quote == '\'' || quote == '"') {
                for (from++; *from != quote; *to++ = *from++)
                    if (*from < 32 || *from > 126 || (quote == '"' && strchr("$`\\!", *from)))
                        return NULL;
                from++;
            } else {
                return NULL;
            }
        }
        *to++ = 0;
    }
    return words;
}

static bool is_program(const char *word, const char *as_written)
{
    return *word && strchr(NAME, *word) && !strchr("-+", *word) && word[strspn(word, NAME)] == 0 &&
           !IS_IN(word, NOT_PROGRAMS) && !strncmp(as_written, word, strlen(word));
}

static bool is_untouched(void) /* nothing in the environment that a shell drops or obeys */
{
    for (char **entry = environ; *entry; entry++) {
        size_t size = strspn(*entry, VARIABLE);
        if ((*entry)[size] != '=' || !size || (**entry >= '0' && **entry <= '9') ||
            IS_IN(text("%.*s", (int)size, *entry), TOUCHY))
            return false;
    }
    return true;
}

static char *logical_directory(void) /* PWD as dash and bash set it; NULL if unclear */
{
    struct stat here, there;
    const char *spelled = variable("PWD");
    if (*spelled == '/' && !strstr(spelled, "/.") && !stat(".", &here) && !stat(spelled, &there) &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return text("%s", spelled);
    return getcwd(NULL, 0);
}

static char *find_command(char *name) /* NULL if the search is unusual in any way */
{
    struct stat status;
    if (strchr(name, '/'))
        return name;
    char *path = text("%s", variable("PATH"));
    for (char *directory; (directory = strsep(&path, ":"));) {
        char *found = text("%s/%s", directory, name);
        if (*directory != '/')
            return NULL;
        if (!stat(found, &status))
            return S_ISREG(status.st_mode) && !access(found, X_OK) ? found : NULL;
    }
    return NULL;
}

/* Prints like dash and bash where nothing needs interpreting, for example make's `echo "  CC
   x.o"`. Returns, leaving it to the shell, if a pipe might not take the line whole or writing
   fails. */
static void echo(char **words)
{
    char line[PIPE_BUF], *end = line;
    for (; *words; words++) {
        if (strchr(*words, '\\') || strlen(*words) + 2 > (size_t)(line + PIPE_BUF - end))
            return;
        end = stpcpy(stpcpy(end, *words), words[1] ? " " : "");
    }
    *end++ = '\n';
    if (write(1, line, (size_t)(end - line)) == end - line)
        _exit(0);
}

static void run_directly(const char *string, const char *shell)
{
    char resolved[PATH_MAX], **words = split(string);
    if (!words || !words[0] || !is_untouched() || !realpath(shell, resolved))
        return;
    const char *kind = strrchr(resolved, '/') + 1;
    if (strcmp(kind, "dash") && strcmp(kind, "bash"))
        return;
    if (!strcmp(words[0], "echo") && !(words[1] && *words[1] == '-'))
        echo(words + 1);
    char *directory = logical_directory(), *path = find_command(words[0]);
    if (!directory || !path || !is_program(words[0], string + strspn(string, " \t")))
        return;
    char *before = getenv("PWD"), *underscore = getenv("_"), *level = getenv("SHLVL");
    setenv("PWD", directory, 1);
    if (!strcmp(kind, "bash")) {
        setenv("SHLVL", "0", 0);
        setenv("_", path, 1);
    }
    execve(path, words, environ);
    /* It could not be executed: restore the environment; the shell will report the error. */
    const char *const names[] = {"PWD", "_", "SHLVL"};
    const char *const values[] = {before, underscore, level};
    for (int i = 0; i < 3; i++)
        values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]);
}

/* Called by another name, as by `exec -a` or through a link, the shell gets that name, too. */
static char *name_for(char *shell, char *given)
{
    char *slash = strrchr(given, '/');
    if (!strcmp(slash ? slash + 1 : given, "lbsh"))
        return shell;
    return strcmp(given, "-lbsh") ? given : text("-%s", strrchr(shell, '/') + 1);
}

int main(int count, char **words)
{
    bool commands = false, harmless = true;
    int at = 1;
    arguments = words;
    if (!count)
        return FAILED;
    if (strspn(variable("LBD_DEPTH"), "0") < strlen(variable("LBD_DEPTH")))
        leave_it();
    for (; at < count && words[at][0] == '-' && words[at][1]; at++) {
        if (words[at][strspn(words[at] + 1, "cefhuvx") + 1])
            leave_it();
        harmless &= !words[at][strspn(words[at] + 1, "ceu") + 1];
        commands |= !!strchr(words[at], 'c');
    }
    if (at == count || words[at][0] == '-' || words[at][0] == '+')
        leave_it();
    char *shell = set_up();
    if (commands && harmless && words[0][0] != '-')
        run_directly(words[at], shell);
    char *called = words[0];
    words[0] = name_for(shell, called);
    execv(shell, words);
    words[0] = called;
    leave_it();
}
