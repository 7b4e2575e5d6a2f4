/* lbrun, compiled: the start of a bare interpreter already costs as much as a whole warm ssh
   call.

   It speaks the protocol of local/client_tags.py for plain cases. For an option not in KNOWN, a
   command that leaves while there is a terminal, an LBM that does not answer, and anything
   unusual, it becomes the Python client, which is the reference, before its own actions have had
   any effect. Called by another name it is one of lbsh's shims: it runs that command, found on
   PATH behind the shims, on another host if the LBM says so, and here if anything is wrong.
   Memory is not freed: the process soon becomes another program or ends. */

#include "lbm.h"

#include "../shell/shim.h"
#include "python_client.h"

#define NOT_HERE "it can only run here, on %s, but --%s forbids that"
#define LOST "lost contact with this host's LBM; the command, if it had started, has been ended"

static const struct { char *word, key; } KNOWN[] = { /* upper-case keys take a value */
    {"-H", 'H'}, {"--host", 'H'}, {"-x", 'X'}, {"--exclude", 'X'}, {"-e", 'E'}, {"--env", 'E'},
    {"-C", 'C'}, {"--chdir", 'C'}, {"--name", 'N'}, {"--local", 'l'}, {"--remote", 'r'},
    {"-v", 'v'}, {"--verbose", 'v'}, {"--no-stdin", 'i'}, {"--no-fallback", 'f'}, {"-T", 't'},
    {"--no-tty", 't'}, {"--no-restart", 's'}, {"-q", 'q'}, {"--queue", 'q'}, {"-d", 'd'},
    {"--detach", 'd'}, {NULL, 0},
};

static char **arguments, **untouched; /* as we were given them, for the program we may become */
static char **command, *directory, *real_program; /* the last: what a shim stands for */
static char *option[128], **repeated; /* by key; repeated: each -x and -e behind its key */
static int null_fds;
static bool joined, typed;
static sigset_t mask_given;

#include "own_places.h"
#include "copies.h"

/* Prints one line on standard error, if the caller has one; on a terminal broken at words. Returns
   the exit status of a failure. */
#define say(...) say_as("lbrun", text(__VA_ARGS__))
static int say_as(const char *program, const char *said) {
    void (*broken)(int) = signal(SIGPIPE, SIG_IGN);
    const char *line = text("%s: %s", program, one_line(said));
    struct winsize size = {0};
    if (!ioctl(2, TIOCGWINSZ, &size) && size.ws_col) line = at_words(line, size.ws_col);
    if (!(closed_fds & 4)) dprintf(2, "%s\n", line);
    signal(SIGPIPE, broken);
    return FAILED;
}

static const char *depth(void) {
    const char *value = getenv("LBD_DEPTH") ?: "";
    return *value && strlen(value) < 4 && !value[strspn(value, "0123456789")] ? value : "0";
}

/* Exits with `status`; by the signal `number`, if that ended the command. */
static _Noreturn void end_like(int status, int number) {
    if (number > 0 && status == 128 + number && (number < SIGSTOP || number > SIGTTOU)) {
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core dump of ours */
        signal(number, SIG_DFL);
        sigdelset(&mask_given, number);
        sigprocmask(SIG_SETMASK, &mask_given, NULL);
        raise(number);
    }
    _exit(status);
}

/* Re-raises signals received for a command that has not begun, and so has no handlers yet. */
static void give_signals_back(void) {
    for (int one = 1; one <= SIGUSR2; one++)
        if (sigismember(&unheard, one)) raise(one); /* pending until the mask is restored */
    sigprocmask(SIG_SETMASK, &mask_given, NULL);
    if (ended_by) end_like(128 + ended_by, ended_by);
}

/* The same words as in lbd/text/missing_program.py. */
#define SHELL_LINE "not found; lbrun runs a program; for a shell line, use lbrun sh -c 'LINE'"
#define IN_THE_SHELL "not found; it is built into the shell; use lbrun sh -c 'LINE'"
#define AS_OPTION "not found; to set a variable, use lbrun -e NAME=VALUE COMMAND"
#define BUILT_IN \
    " . : alias bg cd eval exec export fg jobs set shift source trap ulimit umask unset "
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

static const char *why_not_found(const char *name, bool is_alone) {
    if (is_alone && strpbrk(name, " ;|&<>")) return SHELL_LINE;
    if (strspn(name, LETTERS) && name[strspn(name, LETTERS "0123456789")] == '=') return AS_OPTION;
    if (*name && !strchr(name, ' ') && strstr(BUILT_IN, text(" %s ", name))) return IN_THE_SHELL;
    return *name && !strchr(name, '/') ? "not found" : strerror(ENOENT);
}

#include "not_run.h"

static _Noreturn void become(char *program, char **words) {
    give_signals_back();
    execvp(program, words);
    bool missing = errno == ENOENT;
    const char *why = missing ? why_not_found(program, !words[1]) : strerror(errno);
    not_run(missing ? NOT_FOUND : CANNOT_EXECUTE, text("%s: %s", program, why));
}

/* Most programs are called by their path: some find their parts by it, and by name alone they
   would find the shim. NAMELY (shim.py) lists those that would only print it. */
static _Noreturn void become_command(void) {
    if (real_program && !strstr(NAMELY, text(" %s ", *command))) *command = real_program;
    become(real_program ?: *command, command);
}

/* Becomes the Python client, with one more variable if `name` is given. */
static _Noreturn void become_python(const char *name, const char *value) {
    environ = untouched;
    if (name) setenv(name, value, 1);
    give_signals_back();
    const char *client = become_python_client("lbrun-python", arguments);
    say("%s: %s", client, strerror(errno));
    _exit(CANNOT_EXECUTE);
}

/* Leaves what this program does not handle to the Python client. `unanswered`: why the LBM is of
   no use although it listens. */
static _Noreturn void leave_it(const char *unanswered) {
    close(lbm), lbm = -1;
    environ = untouched;
    if (real_program) become_command();
    become_python(unanswered ? "LBD_UNANSWERED" : NULL, unanswered);
}

/* Returns the directory as the shell spells it ($PWD), if that is where we are; with -C applied. */
static char *working_directory(void) {
    char *spelled = getenv("PWD") ?: "", *wanted = option['C'], *actual = getcwd(NULL, 0);
    struct stat here, there;
    if (!actual) leave_it(NULL);
    if (*spelled == '/' && !stat(".", &here) && !stat(spelled, &there) &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        actual = spelled;
    if (!wanted || !*wanted) return actual;
    return *wanted == '/' ? wanted : text("%s/%s", strcmp(actual, "/") ? actual : "", wanted);
}

/* Ends as the last frame, DONE, says. */
static _Noreturn void end_as_told(void) {
    char *heard = field(HEARD);
    if (*field(REASON)) say("%s", field(REASON));
    pass_signals_on(); /* signals that came after the command's end */
    if (!forced && (copiers[1] || copiers[2])) await_copies();
    if (*heard && !atoi(field(SIGNAL_NUMBER))) typed_signals &= ~strtoull(heard, NULL, 10);
    else typed_signals = 0;
    for (int one = SIGINT; one <= SIGQUIT; one++)
        if (typed_signals >> one & 1) end_like(128 + one, one);
    end_like(*field(STATUS) ? atoi(field(STATUS)) : FAILED, atoi(field(SIGNAL_NUMBER)));
}

#include "queue.h"

static bool ask(char tag) {
    char *fields, *host = option['H'];
    size_t size;
    FILE *to = open_memstream(&fields, &size);
    mode_t mask = umask(0);
    umask(mask);
    for (char **word = command; *word; word++) put(to, ARGUMENT, *word);
    put(to, NAME, option['N'] ?: "");
    put(to, DIRECTORY, directory);
    put(to, UMASK, text("%d", (int)mask));
    put(to, MODE, option['r'] ? "remote" : host ? "host" : "auto");
    put(to, FLAGS, text("%s%s%s%s%s%s%s%s%s", option['f'] ? "n" : "", option['v'] ? "v" : "",
                        option['v'] || isatty(2) ? "t" : "",
                        null_fds & 1 || option['i'] ? "i" : typed ? "?" : "",
                        option['s'] ? "R" : "", real_program ? "s" : "", joined ? "=" : "", option['C'] ? "C" : "",
                        option['C'] && *option['C'] == '/' ? "/" : ""));
    put(to, CLOSED_FDS, text("%d", closed_fds)), put(to, NULL_OUTPUTS, text("%d", null_fds & 6));
    put(to, DEPTH, depth());
    put(to, IGNORED, text("%llu", ignored));
    if (host) put(to, HOST, host);
    for (char **item = repeated; *item; item++)
        if (**item == 'X') put(to, EXCLUDED, *item + 1);
        else put(to, LET_THROUGH, text("%.*s", (int)strcspn(*item + 1, "="), *item + 1));
    for (char **entry = environ; tag != LOCAL && *entry; entry++)
        if (strchr(*entry, '=')) put(to, ENVIRONMENT, *entry);
    if (tag == QUEUE) put_wish(to);
    return !fclose(to) && send_frame(tag, fields, size);
}

/* Stops along with the command, which continues when we do; at once if nobody could wake us. */
static void stop(void) {
    sigset_t one = {0};
    sigaddset(&one, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(stop_asked ? SIGTSTP : SIGSTOP);
    sigprocmask(SIG_BLOCK, &one, NULL);
    send_frame(SIGNAL, &(char){SIGCONT}, 1);
}

/* Becomes the command. `job` is "" if the LBM did not give it an id. */
static _Noreturn void run_here(char *host, char *job, char *reason) {
    if (option['r']) not_run(FAILED, text(NOT_HERE, host, "remote"));
    for (char **item = repeated; *item; item++)
        if (**item == 'X' && !strcmp(*item + 1, host)) not_run(FAILED, text(NOT_HERE, host, "exclude"));
    if (real_program) environ = untouched;
    else setenv("LBD_DEPTH", text("%d", atoi(depth()) + 1), 1);
    if (*job) setenv("LBD_JOB_ID", job, 1), setenv("LBD_HOST", host, 1), setenv("LBD_ORIGIN", host, 1);
    if (option['C'] && chdir(directory)) not_run(FAILED, text("%s: %s", directory, strerror(errno)));
    if (option['v'] && *job) say("%s runs on %s (this host): %s", command[0], host, reason);
    else if (option['v']) say("%s runs here: %s", command[0], reason);
    if (option['i'] && !freopen("/dev/null", "r", stdin)) _exit(say("cannot open /dev/null"));
    become_command();
}

/* Some descriptors (io_uring) are sent to nobody by the kernel, which does not say which. Returns the
   status after a line on that, or on the LBM, which has gone. */
static int not_given(void) {
    static const char *const names[] = {"standard input", "standard output", "standard error"};
    char found[64] = {0};
    for (int number = 0, invalid = errno == EINVAL; invalid && number < 3; number++)
        if (readlink(text("/proc/self/fd/%d", number), found, sizeof found - 1) > 0 &&
            !strncmp(found, "anon_inode:", strlen("anon_inode:")))
            return say("%s is not a file, pipe, socket or terminal, but %s", names[number], found);
    return say(LOST);
}

static _Noreturn void wait_for_end(bool taken) {
    for (int tag = taken ? next_frame() : SILENCE;; tag = next_frame()) switch (tag) {
        case SILENCE: leave_it("this host's LBM does not answer (stopped?)");
        case UNREAD: leave_it("this host's LBM has ended; nothing was run");
        case UNFIT: leave_it(body);
        case AWAY: become_python(NULL, NULL); /* it handles terminals, and asks again */
        case HERE:
            if (real_program && *field(MEASURE)) /* the Python client measures its use */
                become_python("LBD_MEASURE", text("%d %s %s", fcntl(lbm, F_DUPFD, 3), field(JOB),
                                                  field(HOST)));
            run_here(field(HOST), field(JOB), field(REASON));
        case GIVE: /* keeping them would hide from pipes that the command closed its ends */
            placed = true;
            if (!copy_where_needed() || !send_frame(DESCRIPTORS, NULL, 0) ||
                (!(closed_fds & 1) && !freopen("/dev/null", "r", stdin)) ||
                (!(closed_fds & 2) && !freopen("/dev/null", "w", stdout)))
                _exit(not_given());
            close_given();
            break;
        case DONE:
            if (real_program && !placed && (*field(CAUSE) == 'f' || *field(CAUSE) == 'r'))
                leave_it(NULL); /* failed or refused */
            end_as_told();
        case GONE:
            if (real_program && !placed) leave_it(NULL);
            sigprocmask(SIG_SETMASK, &mask_given, NULL); /* nobody may read it: signals end us */
            _exit(say(LOST));
        case STOPPED: stop(); break;
        case WARN: if (!real_program) say("%s", body); break;
        case PLACED: if (option['v']) say("%s runs on %s: %s", *command, field(HOST), field(REASON));
        }
}

/* Returns whether this is a file system of its own in a directory like /tmp. A user may have mounted
   it (FUSE), and then it says whatever they like of whose its files are. */
static bool may_be_anybodys_mount(const char *path) {
    struct stat above, itself;
    if (stat(text("%s/..", path), &above) || stat(path, &itself)) return true;
    return above.st_mode & 022 && itself.st_dev != above.st_dev;
}

/* Returns whether an object of `user` at `path` is there by root's or our will: the directories
   above it are root's or ours, and nobody else can replace anything in them. */
static bool may_be_at(const char *path, uid_t user) {
    struct stat around, link, itself;
    if (may_be_anybodys_mount(path)) return false;
    if (is_ours(user)) return true;
    char *above = text("%s", path), *name = above;
    for (char *at = above; *at; at++)
        if (*at == '/' && at[strspn(at, "/")]) name = at;
    *name = 0;
    above = text("%s/", above);
    return *path == '/' && is_ours_alone(above) && !stat(above, &around) && !lstat(path, &link) &&
           /* in a directory like /tmp anybody can create missing entries */
           (!(around.st_mode & 022) || is_kept(&around, &link)) && !stat(path, &itself) &&
           S_ISDIR(itself.st_mode) && !(itself.st_mode & S_IWOTH) &&
           (itself.st_uid == user || !itself.st_uid);
}

/* Connects to this host's LBM; returns false if there is none. Objects of other users are not
   trusted: neither a directory (checked before we wait for a process there) nor the listening
   process. */
static bool connect_in(const char *runtime_dir) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = SILENT_MS / 1000};
    struct stat status;
    struct ucred listener;
    socklen_t room = sizeof listener;
    int size = snprintf(name.sun_path, sizeof name.sun_path, "%s/lbm.sock", runtime_dir);
    if (size >= (int)sizeof name.sun_path || lstat(runtime_dir, &status) ||
        !may_be_at(runtime_dir, status.st_uid))
        return false;
    lbm = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(lbm, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(lbm, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!connect(lbm, (struct sockaddr *)&name, sizeof name) &&
        !getsockopt(lbm, SOL_SOCKET, SO_PEERCRED, &listener, &room) &&
        (listener.uid == status.st_uid || may_be_at(runtime_dir, listener.uid)))
        return restarting = text("%s/lbm.restarting", runtime_dir), true;
    return close(lbm), false;
}

/* Connects to the LBM at the place that lbd.toml gives, or at the default one. */
static bool find_lbm(void) {
    static char config[CONFIG_MAX] = {0};
    char *named = getenv("LBD_CONFIG") ?: "", *base = getenv("XDG_RUNTIME_DIR") ?: "";
    char *usual = text("%s/.config/lbd/lbd.toml", getenv("HOME") ?: "");
    char *own = *base ? text("%s/lbd", base) : text("/tmp/lbd-%d", (int)geteuid());
    int file = open(*named ? named : usual, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (file >= 0 && (fstat(file, &status) || !S_ISREG(status.st_mode) ||
                      (!*named && !geteuid() && !is_ours_alone(usual))))
        leave_it(NULL); /* a FIFO would block; another user's file must not direct root */
    bool of_user = file >= 0;
    if (!of_user && !*named) file = open("/etc/lbd/lbd.toml", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 && !*named ? 0 : read(file, config + 1, CONFIG_MAX - 2);
    config[0] = '\n';
    close(file);
    char *found = strstr(config, "\nruntime_dir = \""), *from = found ? found + 16 : "";
    char *end = from + strcspn(from, "\"\\\n");
    if (size < 0 || size == CONFIG_MAX - 2 || strlen(config) != (size_t)size + 1 ||
        (strstr(config, "runtime_dir") && *end != '"'))
        leave_it(NULL); /* needs a TOML parser, or an error message */
    if (of_user && !real_program && strstr(config, "never")) leave_it(NULL); /* so does this list */
    if (found) return connect_in(text("%.*s", (int)(end - from), from));
    return (geteuid() && connect_in(own)) || connect_in("/run/lbd");
}

/* Reads the options before the command; leaves to Python those not KNOWN or not compatible. */
static void read_options(char **word) {
    char **next = repeated;
    for (; *word && **word == '-' && (*word)[1] && strcmp(*word, "--"); word++) {
        bool full = (*word)[1] == '-';
        int i = 0, size = full ? (int)strcspn(*word, "=") : 2;
        char *name = text("%.*s", size, *word), *value = *word + size;
        while (KNOWN[i].word && strcmp(KNOWN[i].word, name)) i++;
        bool takes = KNOWN[i].key < 'a';
        if (!KNOWN[i].word || (*value && !takes) || (takes && !*value && !word[1])) leave_it(NULL);
        option[(int)KNOWN[i].key] = value = takes ? *value ? value + full : *++word : "";
        if (strchr("XE", KNOWN[i].key)) *next++ = text("%c%s", KNOWN[i].key, value);
        if (KNOWN[i].key == 'E' && (*value == '=' || !(strchr(value, '=') || getenv(value)))) leave_it(NULL);
        if (KNOWN[i].key == 'X' && (!*value || strpbrk(value, ", "))) leave_it(NULL); /* a list */
        if (KNOWN[i].key == 'H' && strchr(value, ',')) leave_it(NULL); /* an error */
    }
    command = word + (*word && !strcmp(*word, "--"));
    bool queued = option['q'] || option['d'];
    bool odd = option['l'] ? option['H'] || option['r'] : option['H'] && option['X'];
    if (queued && (option['l'] || option['r'] || (option['q'] && option['d']) || closed_fds)) odd = true;
    if (!*command || odd || atoi(depth()) >= DEPTH_MAX) leave_it(NULL);
}

/* Returns the first program of that name on PATH that is not this one, or NULL. */
static char *find_behind_shims(char *name) {
    char *path = text("%s", getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin");
    struct stat self, other;
    for (char *in; !stat("/proc/self/exe", &self) && (in = strsep(&path, ":"));) {
        char *file = text("%s/%s", *in ? in : ".", name);
        if (!stat(file, &other) && S_ISREG(other.st_mode) &&
            !faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) &&
            (other.st_ino != self.st_ino || other.st_dev != self.st_dev))
            return file;
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct stat ends[3] = {0};
    size_t count = 0, room = (size_t)argc + 3;
    for (int end = 0; end < 3; end++) closed_fds |= !!fstat(end, ends + end) << end;
    for (int end = 0; end < 3; end++)
        null_fds |= (ends[end].st_rdev == NULL_DEVICE && (!end || !write(end, "", 0))) << end;
    joined = ends[1].st_dev == ends[2].st_dev && ends[1].st_ino == ends[2].st_ino && ends[1].st_ino;
    while (environ[count++]) continue;
    untouched = calloc(count, sizeof *untouched);
    arguments = calloc(2 * room, sizeof *arguments);
    if (!argc || !arguments || !untouched) return FAILED;
    memcpy(untouched, environ, count * sizeof *untouched);
    sigprocmask(SIG_SETMASK, NULL, &mask_given);
    char *name = basename((char *)getauxval(AT_EXECFN)); /* argv[0] may be anything: exec -a */
    bool shim = strcmp(name, "lbrun");
    typed = !((closed_fds | null_fds) & 1) && isatty(0);
    memcpy(arguments + 2 * shim, argv, (size_t)argc * sizeof *argv), repeated = arguments + room;
    if (shim) {
        *(command = arguments + 2) = name, command[-1] = "--shim", command[-2] = "lbrun";
        if (!(real_program = find_behind_shims(name)))
            return say_as("lbsh", text("%s: not found", name)), NOT_FOUND;
        if (strcmp(name, basename(argv[0]))) execv(real_program, argv);
    }
    if (!strcmp(getenv("LBD_FRONT") ?: "", "python")) become_python(NULL, NULL);
    if (!shim) read_options(arguments + 1);
    if ((shim && strcmp(depth(), "0")) || !find_lbm()) leave_it(NULL);
    for (char **item = repeated; *item; item++)
        if (**item == 'E' && strchr(*item, '=')) putenv(*item + 1);
    directory = working_directory();
    bool told = option['l'] && ask(LOCAL) && next_frame() == HERE;
    if (option['q'] || option['d'])
        read_input(), catch_signals(FORWARDED_TO_QUEUE), wait_in_queue(ask(QUEUE));
    if (option['l']) run_here(told ? field(HOST) : "", told ? field(JOB) : "", "--local was given");
    catch_signals(FORWARDED);
    wait_for_end(ask(RUN) || errno == EPIPE); /* if sending failed, a frame may say why */
}
