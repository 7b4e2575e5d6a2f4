/* The keeper's nursery: it clones spare children. Each waits for its steps, then becomes the
 * command.
 *
 * The steps are compiled and documented in user_and_start_steps.py, which makes all decisions.
 * interpreter.py carries out the same steps. This program is small because fork and exec are
 * cheap only for small processes: copying a Python for each command and tearing it down again
 * costs more than all the rest of starting a short command.
 *
 *   spare SOCKET
 *
 * SOCKET is a descriptor, SOCK_SEQPACKET. A message asks for spares (preforked.py): for each, one
 * byte for how it joins its cgroup, and perhaps a descriptor of the cgroup. The answer is their
 * pids, and the keeper's ends of their sockets. After the first failure, which is a negative errno,
 * none follows. The spares are the keeper's children, not ours (CLONE_PARENT).
 *
 * Its steps are one frame (local/frames.py): length, 4 bytes, little endian; tag; steps, each a
 * letter, a length and a value. The command's descriptors come with the first bytes. When the
 * command runs, the socket closes without a reply; otherwise the reply is 'F', the letter of the
 * step and the errno. */
#include "../launch/program.h"
#include "user_and_start_steps.h"

#include <grp.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

enum { SPARES_AT_ONCE = 4 }; /* also in preforked.py */
enum { STEPS_LIMIT_BYTES = 32 << 20, DESCRIPTORS = 3, FIRST_FREE = 10, SIGNALS = 64, INPUT_BYTES_MAX = 16 << 20 };
enum { NO_CGROUP = 'n', CGROUP_DIRECTORY = 'd', CGROUP_PROCS = 'p' };
enum { ONLY_ITSELF, SEEN_ANYWHERE, SEEN_OVER_NETWORK, COMPARED = 7 }; /* directory_stamp.py */

#define NOBODY 0xffffffffLL /* (uid_t)-1 and (gid_t)-1: no user, no group */

struct step {
    char letter;
    const unsigned char *value;
    size_t length;
};

static int sock, no_keyring;
static int descriptors[SPARES_AT_ONCE], descriptor_count;
static char **command, **environment; /* for exec */
static char letter; /* of the current step */

_Noreturn static void fail(int error) {
    char reply[2 + sizeof error] = {FAILED, letter};
    memcpy(reply + 2, &error, sizeof error);
    send(sock, reply, sizeof reply, MSG_NOSIGNAL);
    _exit(127);
}

static void *must(void *memory) {
    if (!memory) fail(ENOMEM);
    return memory;
}

static void take_descriptors(struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < count && descriptor_count < SPARES_AT_ONCE; i++)
            memcpy(&descriptors[descriptor_count++], CMSG_DATA(c) + (size_t)i * sizeof(int), sizeof(int));
    }
}

/* Reads up to `size` bytes; exits quietly when the keeper no longer needs this process. */
static size_t receive_some(void *buffer, size_t size) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(SPARES_AT_ONCE * sizeof(int))];
    } control;
    struct iovec part = {buffer, size};
    for (;;) {
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(0);
        take_descriptors(&message);
        return (size_t)got;
    }
}

static void receive(void *buffer, size_t size) {
    for (size_t got = 0; got < size;) got += receive_some((char *)buffer + got, size - got);
}

static size_t count_of(const struct step *step) {
    if (step->length % sizeof(int64_t)) fail(EBADMSG);
    return step->length / sizeof(int64_t);
}

/* Returns one of the step's numbers, of which there must be `count`. */
static int64_t number(const struct step *step, size_t index, size_t count) {
    int64_t found;
    if (count_of(step) != count) fail(EBADMSG);
    memcpy(&found, step->value + index * sizeof found, sizeof found);
    return found;
}

/* Returns the text that begins at `at` and ends inside the value. */
static char *text(const struct step *step, size_t at) {
    if (at >= step->length || !memchr(step->value + at, 0, step->length - at)) fail(EBADMSG);
    return (char *)step->value + at;
}

/* Returns the value, which must be a single text. */
static char *whole(const struct step *step) {
    char *found = text(step, 0);
    if (strlen(found) + 1 != step->length) fail(EBADMSG);
    return found;
}

static unsigned below(int64_t limit, int64_t value) {
    if (value < 0 || value >= limit) fail(EBADMSG);
    return (unsigned)value;
}

/* Returns all texts of the value, then NULL. */
static char **texts(const struct step *step) {
    size_t count = 0;
    for (size_t at = 0; at < step->length; at++) count += !step->value[at];
    char **list = must(calloc(count + 1, sizeof *list));
    for (size_t i = 0, at = 0; at < step->length; at += strlen(list[i++]) + 1) list[i] = text(step, at);
    return list;
}

static int set_limit(const struct step *step) {
    struct rlimit limit = {(rlim_t)number(step, 1, 3), (rlim_t)number(step, 2, 3)};
    return setrlimit((int)number(step, 0, 3), &limit);
}

/* Joins a new, empty session keyring. Returns an errno, or 0, also where there are no keyrings. */
static int join_session_keyring(void) {
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0) return 0;
    return errno == ENOSYS || errno == EPERM ? 0 : errno;
}

static int write_file(const struct step *step) {
    const char *path = text(step, 0), *content = text(step, strlen(path) + 1);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t size = (ssize_t)strlen(content), written = write(file, content, (size_t)size);
    int error = errno;
    close(file);
    errno = error;
    return written == size ? 0 : -1;
}

static int set_groups(const struct step *step) {
    size_t count = count_of(step);
    gid_t *groups = must(calloc(count + 1, sizeof *groups));
    for (size_t i = 0; i < count; i++) groups[i] = below(NOBODY, number(step, i, count));
    return setgroups(count, groups);
}

static int become_user(const struct step *step) {
    if (setuid(below(NOBODY, number(step, 0, 1)))) return -1;
    return prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid cleared it */
}

/* Places one of the received descriptors at 0, 1 or 2. */
static int place(const struct step *step) {
    int from = descriptors[below(descriptor_count, number(step, 0, 2))];
    return dup2(from, (int)below(DESCRIPTORS, number(step, 1, 2)));
}

/* Makes standard input a copy of what it is, a file in memory, and empties that. We are root, and an
 * LBM could pass anything: what is no such file may never end. */
static int copy_input(void) {
    size_t left = INPUT_BYTES_MAX + 1;
    int copy = memfd_create("input", MFD_CLOEXEC);
    if (copy < 0 || fcntl(0, F_GET_SEALS) < 0) return -1;
    for (ssize_t more = 1; left && more; left -= (size_t)more)
        if ((more = sendfile(copy, 0, NULL, left)) < 0) return -1;
    if (!left) fail(EFBIG);
    if (lseek(copy, 0, SEEK_SET) < 0 || ftruncate(0, 0) || dup2(copy, 0) < 0) return -1;
    return close(copy);
}

static int here_is_networked(const struct step *step) {
    struct statfs found;
    if (statfs(".", &found)) return 0;
    for (size_t i = COMPARED, count = count_of(step); i < count; i++)
        if ((unsigned)found.f_type == number(step, i, count)) return 1;
    return 0;
}

/* Returns whether this is the directory of the stamp: `fits` of directory_stamp.py. */
static int is_here(const struct step *step) {
    size_t count = count_of(step);
    if (count < COMPARED) fail(EBADMSG);
    int64_t how = number(step, 0, count), device = number(step, 2, count), born_ns = number(step, 3, count);
    struct stat cached;
    if (stat(".", &cached) || cached.st_ino != (ino_t)number(step, 1, count)) return 0;
    int is_on_it = (int64_t)cached.st_dev == device;
    if (!is_on_it && (how == ONLY_ITSELF || (how != SEEN_ANYWHERE && !here_is_networked(step)))) return 0;
    struct statx here;
    if (statx(AT_FDCWD, ".", 0, STATX_BTIME | STATX_MTIME, &here)) return 0;
    if (born_ns && here.stx_mask & STATX_BTIME)
        return born_ns == here.stx_btime.tv_sec * 1000000000LL + here.stx_btime.tv_nsec;
    if (is_on_it) return 1;
    int64_t changed_ns = here.stx_mtime.tv_sec * 1000000000LL + here.stx_mtime.tv_nsec, apart;
    if (changed_ns >= number(step, 6, count)) return 1;
    if (__builtin_sub_overflow(changed_ns, number(step, 4, count), &apart)) return 0;
    return apart <= number(step, 5, count) && apart >= -number(step, 5, count);
}

static void carry_out(const struct step *step) {
    int failed = 0;
    switch (step->letter) {
    case WORDS: command = texts(step); break;
    case VARIABLES: environment = texts(step); break;
    case WRITE: failed = write_file(step); break;
    case TRY_WRITE: write_file(step); break; /* best effort, as are limits and nice */
    case CLOSE: close((int)below(DESCRIPTORS, number(step, 0, 1))); break;
    case PLACE: failed = place(step) < 0; break;
    case COPY_INPUT: failed = copy_input(); break;
    case LIMIT: failed = set_limit(step); break;
    case TRY_LIMIT: set_limit(step); break;
    case NICE: setpriority(PRIO_PROCESS, 0, (int)number(step, 0, 1)); break;
    case GROUPS: failed = set_groups(step); break;
    case GROUP: failed = setgid(below(NOBODY, number(step, 0, 1))); break;
    case USER: failed = become_user(step); break;
    case KEYRING: /* a keyring of the user's, if their quota allows */
        if (join_session_keyring() && no_keyring) fail(no_keyring);
        break;
    case NO_NEW_PRIVILEGES: failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); break;
    case IGNORE:
        for (int signal_number = 1; signal_number <= SIGNALS; signal_number++)
            if ((uint64_t)number(step, 0, 1) >> (signal_number - 1) & 1) signal(signal_number, SIG_IGN);
        break;
    case UMASK: umask((mode_t)number(step, 0, 1)); break;
    case DIRECTORY: failed = chdir(whole(step)); break;
    case SAME: if (!is_here(step)) fail(0); break;
    case EXEC: /* execvpe searches our own PATH */
        if (!command || !*command || !environment) fail(EBADMSG);
        if (!setenv("PATH", whole(step), 1)) execvpe(*command, command, environment);
        fail(errno);
    default: fail(ENOTSUP);
    }
    if (failed) fail(errno);
}

/* Runs the rest of a spare's life. */
_Noreturn static void live(void) {
    unsigned char header[HEADER_BYTES] = {0};
    receive(header, sizeof header);
    size_t size = length_at(header);
    if (size > STEPS_LIMIT_BYTES) fail(EMSGSIZE);
    unsigned char *body = must(calloc(1, size + 1));
    receive(body, size);
    for (int i = 0; i < descriptor_count; i++) /* so that none overwrites another */
        if ((descriptors[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, FIRST_FREE)) < 0) fail(errno);
    for (size_t at = 0; at < size;) {
        if (size - at < HEADER_BYTES) fail(EBADMSG);
        struct step step = {(char)body[at], body + at + HEADER_BYTES, length_at(body + at + 1)};
        at += HEADER_BYTES;
        if (step.length > size - at) fail(EBADMSG);
        at += step.length;
        letter = step.letter;
        carry_out(&step);
    }
    fail(EBADMSG);
}

/* Clones a spare, in its cgroup from birth where the kernel supports it. Returns its pid, or
 * -errno. Moving a process afterwards makes it wait for a grace period of RCU, up to 15 ms. */
static int breed(char how, int group) {
    struct clone_args request = {.flags = CLONE_PARENT};
    if (how == CGROUP_DIRECTORY) {
        request.flags |= CLONE_INTO_CGROUP;
        request.cgroup = (unsigned long long)group;
    }
    long pid = syscall(SYS_clone3, &request, sizeof request);
    if (pid) return pid < 0 ? -errno : (int)pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    no_keyring = join_session_keyring();
    if (how == CGROUP_PROCS && write(group, "0", 1) != 1) fail(errno);
    return 0;
}

/* Makes a spare with a socket, of which `ends` gets the keeper's end. Returns as `breed` does. */
static int make(char how, int group, int ends[], int made) {
    int pair[2], answer = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return -errno;
    ends[made] = pair[0];
    if ((sock = fcntl(pair[1], F_DUPFD_CLOEXEC, FIRST_FREE)) < 0) answer = -errno;
    close(pair[1]);
    if (sock >= 0) answer = breed(how, group);
    if (!answer) {
        while (made >= 0) close(ends[made--]); /* else the spare would not see that they are closed */
        descriptor_count = 0; /* its own come with its steps */
        live();
    }
    if (sock >= 0) close(sock);
    if (answer < 0) close(pair[0]);
    return answer;
}

/* Sends the pids of the spares, and their sockets. */
static void reply(int keeper, int32_t *answers, int count, const int *ends, int made) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(SPARES_AT_ONCE * sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {answers, (size_t)count * sizeof *answers};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t size = (size_t)made * sizeof(int);
    if (made) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(&control.header), ends, size);
    }
    if (sendmsg(keeper, &message, MSG_NOSIGNAL) < 0) _exit(0);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    int keeper = atoi(arguments[1]);
    fcntl(keeper, F_SETFD, FD_CLOEXEC);
    for (;;) {
        char how[SPARES_AT_ONCE];
        int32_t answers[SPARES_AT_ONCE];
        int ends[SPARES_AT_ONCE], made = 0, asked = 0;
        sock = keeper;
        descriptor_count = 0;
        size_t wanted = receive_some(how, sizeof how);
        int groups = descriptor_count;
        while (asked < (int)wanted) {
            int group = asked < groups ? descriptors[asked] : -1;
            answers[asked] = make(how[asked], group, ends, made);
            if (answers[asked++] < 0) break;
            made++;
        }
        reply(keeper, answers, asked, ends, made);
        for (int i = 0; i < groups; i++) close(descriptors[i]);
        for (int i = 0; i < made; i++) close(ends[i]);
    }
}
