/* The keeper's nursery: it clones spare children, each of which waits for an order, then becomes the
 * command.
 *
 * The same as child.py and launch.py in Python, which remain the reference and do every order that
 * this program is not told of. It is small because fork and exec are: to copy an interpreter for
 * each command and to tear it down again costs more than all the rest of starting a short one.
 *
 *   spare SOCKET MARK KERNEL
 *
 * SOCKET: a descriptor, SOCK_SEQPACKET; MARK: LBD_KEPT=…, to be completed by the job's id; KERNEL:
 * see stamp.py. A message asks for one spare (nursery.py): one byte, how it joins its cgroup, with
 * the spare's own socket and perhaps a descriptor of the cgroup. The answer is its process number,
 * or an errno, negative. The spare is the keeper's child, not ours (CLONE_PARENT).
 *
 * The order is one frame (rpc/frames.py): length, 4 bytes, little endian; tag; fields, each a key,
 * a length and a value; the command's descriptors come with its first bytes. When the command runs,
 * the socket closes without a word; else it says "STAGE ERRNO". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER_BYTES = 5, ORDER_LIMIT_BYTES = 16 << 20, DESCRIPTORS = 3, FIRST_FREE = 10, SIGNALS = 64 };
#define MARK_NAME "LBD_KEPT="
#define CACHED_NS 60000000000LL /* attributes of a directory on NFS are believed this long */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
enum { NO_CGROUP = 'n', CGROUP_DIRECTORY = 'd', CGROUP_PROCS = 'p' };

struct words {
    char **list;
    size_t count, room;
};

static int sock, no_keyring;
static int descriptors[DESCRIPTORS], descriptor_count;

_Noreturn static void fail(const char *stage, int error) {
    dprintf(sock, "%s %d", stage, error);
    _exit(127);
}

static void *must(void *memory) {
    if (!memory) fail("spawn", ENOMEM);
    return memory;
}

static void add(struct words *words, char *word) {
    if (words->count == words->room) {
        words->room = 2 * words->room + 64;
        words->list = must(realloc(words->list, words->room * sizeof *words->list));
    }
    words->list[words->count++] = word;
}

static void take_descriptors(struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < count && descriptor_count < DESCRIPTORS; i++)
            memcpy(&descriptors[descriptor_count++], CMSG_DATA(c) + (size_t)i * sizeof(int), sizeof(int));
    }
}

/* Exactly `size` bytes; leaves quietly when the keeper has no use for us any more. */
static void receive(void *buffer, size_t size) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control;
    for (size_t got = 0; got < size;) {
        struct iovec part = {(char *)buffer + got, size - got};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t more = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) _exit(0);
        take_descriptors(&message);
        got += (size_t)more;
    }
}

static uint32_t little_endian(const unsigned char *at) {
    return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

static rlim_t limit_value(char **text) {
    unsigned long long value = strtoull(*text, text, 10);
    return value >> 63 ? RLIM_INFINITY : value;
}

/* "NUMBER SOFT HARD" of the caller, as rlimits.py takes it. */
static void set_limit(char *text) {
    struct rlimit own;
    int number = (int)strtol(text, &text, 10);
    rlim_t soft = limit_value(&text), hard = limit_value(&text);
    bool only_lowered = number == RLIMIT_MEMLOCK || number == RLIMIT_NICE ||
                        number == RLIMIT_RTPRIO || number == RLIMIT_RTTIME;
    if (getrlimit(number, &own)) return;
    if (only_lowered && soft > own.rlim_cur) soft = own.rlim_cur;
    if (hard > own.rlim_max) hard = own.rlim_max;
    if (soft > hard) soft = hard;
    if (own.rlim_cur == soft && own.rlim_max == hard) return;
    setrlimit(number, &(struct rlimit){soft, hard}); /* as far as allowed */
}

/* A new one, empty; an errno, or 0, also where there are no keyrings. */
static int join_session_keyring(void) {
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0) return 0;
    return errno == ENOSYS || errno == EPERM ? 0 : errno;
}

/* Where audit is, it names whom a command belongs to by this. */
static void set_login_uid(uid_t uid) {
    int file = open("/proc/self/loginuid", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    dprintf(file, "%u", uid);
    close(file);
}

/* The next of numbers with one space before each but the first, and nothing else. */
static id_t next_id(char **text, int is_first) {
    char *at = *text;
    if (!is_first && *at++ != ' ') fail("user", EINVAL);
    if (*at < '0' || *at > '9') fail("user", EINVAL);
    errno = 0;
    unsigned long value = strtoul(at, text, 10);
    if (errno || value >= (id_t)-1) fail("user", EINVAL);
    return (id_t)value;
}

/* "UID GID GROUP GROUP ..." */
static void become_user(char *text) {
    uid_t uid = next_id(&text, 1);
    gid_t gid = next_id(&text, 0);
    size_t count = 0, room = strlen(text) / 2; /* a space and a digit each, at least */
    gid_t *groups = must(calloc(room + 1, sizeof *groups));
    while (*text && count < room) groups[count++] = next_id(&text, 0);
    if (*text) fail("user", EINVAL);
    set_login_uid(uid);
    if (setgroups(count, groups) || setgid(gid) || setuid(uid)) fail("user", errno);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid cleared it */
    /* One that belongs to the user, if the user may have another: else the one we were born with. */
    if (join_session_keyring() && no_keyring) fail("keyring", no_keyring);
}

/* At 0, 1, 2, leaving out those the caller had closed. */
static void place_descriptors(int closed) {
    int high[DESCRIPTORS], next = 0;
    for (int i = 0; i < descriptor_count; i++)
        if ((high[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, FIRST_FREE)) < 0)
            fail("descriptors", errno);
    for (int number = 0; number < DESCRIPTORS; number++) {
        close(number);
        if (closed >> number & 1) continue;
        if (next == descriptor_count) fail("descriptors", EBADF);
        if (dup2(high[next++], number) < 0) fail("descriptors", errno);
    }
}

/* execvpe looks for the command along our PATH, so that must be its own. */
static void take_path(const struct words *environment) {
    const char *path = DEFAULT_PATH;
    for (size_t i = 0; i < environment->count; i++)
        if (!strncmp(environment->list[i], "PATH=", 5)) path = environment->list[i] + 5;
    if (setenv("PATH", path, 1)) fail("spawn", errno);
}

/* The types of stamp.py, as statfs names them. */
static int is_networked(const char *type) {
    static const char *names[] = {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre",
        "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "vboxsf", "virtiofs",
    };
    size_t length = strcspn(type, "."); /* fuse.sshfs */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], type, length)) return 1;
    return 0;
}

static int here_is_networked(void) {
    static const unsigned magics[] = {
        0x01021997 /* 9p */, 0x5346414f /* afs */, 0x19830326 /* beegfs */, 0x00c36400 /* ceph */,
        0xff534d42 /* cifs */, 0xfe534d42 /* smb3 */, 0x73757245 /* coda */, 0x65735546 /* fuse */,
        0x01161970 /* gfs2 */, 0x47504653 /* gpfs */, 0x0bd00bd0 /* lustre */, 0x6969 /* nfs */,
        0x7461636f /* ocfs2 */, 0x20030528 /* pvfs2 */, 0xaad7aaea /* panfs */,
        0x7c7c6673 /* prl_fs */, 0x786f4256 /* vboxsf */,
    };
    struct statfs found;
    if (statfs(".", &found)) return 0;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if ((unsigned)found.f_type == magics[i]) return 1;
    return 0;
}

/* Whether we are in the directory of which the origin took this stamp: is_same of stamp.py. */
static int is_here(const char *stamp, const char *own_kernel) {
    char kernel[64], type[64];
    unsigned long long device, inode;
    long long born_ns, changed_ns;
    if (sscanf(stamp, "%63s %llu %llu %lld %lld %63s", kernel, &device, &inode, &born_ns,
               &changed_ns, type) != 6) fail("spawn", EBADMSG);
    struct stat cached;
    if (stat(".", &cached) || cached.st_ino != inode) return 0;
    int one_kernel = strcmp(kernel, "-") && !strcmp(kernel, own_kernel);
    if (one_kernel && cached.st_dev == device) return 1;
    int there_too = is_networked(type), here_too = here_is_networked();
    if (one_kernel ? !(there_too && here_too) : !(there_too || here_too)) return 0;
    struct statx here;
    if (statx(AT_FDCWD, ".", 0, STATX_BTIME | STATX_MTIME, &here)) return 0;
    if (born_ns && here.stx_mask & STATX_BTIME)
        return born_ns == here.stx_btime.tv_sec * 1000000000LL + here.stx_btime.tv_nsec;
    long long apart = changed_ns - (here.stx_mtime.tv_sec * 1000000000LL + here.stx_mtime.tv_nsec);
    return apart <= CACHED_NS && -apart <= CACHED_NS;
}

/* The rest of a spare's life; both arguments are the nursery's arguments. */
_Noreturn static void live(const char *mark_so_far, const char *kernel) {
    unsigned char header[HEADER_BYTES] = {0};
    receive(header, sizeof header);
    size_t size = little_endian(header);
    if (size > ORDER_LIMIT_BYTES) fail("spawn", EMSGSIZE);
    unsigned char *body = must(calloc(1, size + 1));
    receive(body, size);

    struct words command = {0}, environment = {0}, limits = {0};
    char *directory = "/", *job = "", *user = NULL, *stamp = NULL;
    int umask_bits = 022, nice_value = 0, closed = 0, no_new_privileges = 0;
    unsigned long long ignored = 0;
    for (size_t at = 0; at < size;) {
        if (size - at < HEADER_BYTES) fail("spawn", EBADMSG);
        unsigned char key = body[at];
        size_t length = little_endian(body + at + 1);
        at += HEADER_BYTES;
        if (length > size - at) fail("spawn", EBADMSG);
        char *value = must(malloc(length + 1));
        memcpy(value, body + at, length);
        value[length] = 0;
        at += length;
        if (strlen(value) != length) fail("exec", ENOENT); /* a zero byte inside */
        switch (key) {
        case 'j': job = value; break;
        case 'a': add(&command, value); break;
        case 'e': if (strncmp(value, MARK_NAME, strlen(MARK_NAME))) add(&environment, value); break;
        case 'd': directory = value; break;
        case 's': stamp = value; break;
        case 'u': umask_bits = atoi(value); break;
        case 'l': add(&limits, value); break;
        case 'w': user = value; break;
        case 'i': ignored = strtoull(value, NULL, 10); break;
        case 'P': no_new_privileges = 1; break;
        case 'N': nice_value = atoi(value); break;
        case 'c': closed = atoi(value); break;
        default: fail("spawn", ENOTSUP);
        }
    }
    if (!command.count || !*job) fail("spawn", EBADMSG);
    char *mark;
    if (asprintf(&mark, "%s%s", mark_so_far, job) < 0) fail("spawn", ENOMEM);
    add(&environment, mark);
    take_path(&environment);
    add(&environment, NULL);
    add(&command, NULL);

    place_descriptors(closed);
    for (size_t i = 0; i < limits.count; i++) set_limit(limits.list[i]);
    if (nice_value) setpriority(PRIO_PROCESS, 0, nice_value); /* as far as allowed */
    if (user) become_user(user);
    if (no_new_privileges) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (int number = 1; number <= SIGNALS; number++)
        if (ignored >> (number - 1) & 1) signal(number, SIG_IGN);
    umask((mode_t)umask_bits);
    if (chdir(directory)) fail("chdir", errno);
    if (stamp && !is_here(stamp, kernel)) fail("directory", 0);
    execvpe(command.list[0], command.list, environment.list);
    fail("exec", errno);
}

/* Clone one, born in its cgroup where the kernel can do that; its process number, or -errno.
 * Moving a process afterwards makes it wait for a grace period of RCU, up to 15 ms. */
static int breed(char how, int group, const char *mark, const char *kernel) {
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
    if (how == CGROUP_PROCS && write(group, "0", 1) != 1) fail("spawn", errno);
    live(mark, kernel);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int keeper = atoi(arguments[1]);
    fcntl(keeper, F_SETFD, FD_CLOEXEC);
    for (;;) {
        char how = NO_CGROUP;
        sock = keeper;
        descriptor_count = 0;
        receive(&how, 1);
        if (!descriptor_count || (sock = fcntl(descriptors[0], F_DUPFD_CLOEXEC, FIRST_FREE)) < 0)
            return 2;
        int group = descriptor_count > 1 ? descriptors[1] : -1;
        int received = descriptor_count;
        descriptor_count = 0; /* the spare's start with its order */
        int32_t answer = breed(how, group, arguments[2], arguments[3]);
        for (int i = 0; i < received; i++) close(descriptors[i]);
        close(sock);
        if (send(keeper, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) return 0;
    }
}
