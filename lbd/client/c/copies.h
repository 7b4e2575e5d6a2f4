/* Outputs that a child of ours copies, as lbd/client/output_copies.py has it. To the reader of a
   Unix socket the kernel can show who writes. If that is a service (systemd's notify socket, the
   journal), it must be shown us and not the LBM. The other end of a stream stays with whom it was
   connected to, so one of our own user gets its output from the LBM itself. A file in memory counts
   as the memory of who writes it. */

#include <sys/wait.h>

static pid_t copiers[3];

static bool shows_writer(int number) {
    int family = 0, type = SOCK_DGRAM;
    struct ucred reader = {.uid = (uid_t)-1};
    socklen_t size = sizeof family, reader_size = sizeof reader;
    if (getsockopt(number, SOL_SOCKET, SO_DOMAIN, &family, &size) || family != AF_UNIX) return false;
    getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size);
    getsockopt(number, SOL_SOCKET, SO_PEERCRED, &reader, &reader_size);
    return type == SOCK_DGRAM || reader.uid != geteuid();
}

static bool is_in_memory(int number) {
    return fcntl(number, F_GET_SEALS) >= 0; /* other files have none */
}

static _Noreturn void copy(int from, int to) {
    char piece[1 << 16];
    for (ssize_t got; (got = read(from, piece, sizeof piece)) > 0;)
        for (ssize_t done = 0, sent; done < got; done += sent > 0 ? sent : 0)
            if ((sent = write(to, piece + done, (size_t)(got - done))) < 0 &&
                (errno != EAGAIN || poll(&(struct pollfd){to, POLLOUT, 0}, 1, -1) < 0))
                _exit(0);
    _exit(0);
}

/* Returns false if a child that is needed cannot be made. */
static bool copy_where_needed(void) {
    sigset_t all, before;
    for (int number = 1, ends[2]; number < 3; number++) {
        if (number == 2 && joined && given[1] != 1) { /* one child, so that their order is kept */
            given[2] = given[1];
            break;
        }
        if (closed_fds >> number & 1 || !(shows_writer(number) || is_in_memory(number))) continue;
        if (pipe2(ends, O_CLOEXEC)) return false;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before); /* it ends when the command has closed its end */
        if (!(copiers[number] = fork())) {
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            close(lbm), close(ends[1]), close(0), close(3 - number);
            copy(ends[0], number);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        close(ends[0]);
        given[number] = ends[1];
        if (copiers[number] < 0) return false;
    }
    return true;
}

/* The command has them now: only once nobody has them open do the children end. */
static void close_given(void) {
    if (given[1] != 1) close(given[1]);
    if (given[2] != 2 && given[2] != given[1]) close(given[2]);
}

/* The command has ended: signals are ours again, so that ^C ends the wait for a reader. */
static void await_copies(void) {
    close(lbm); /* and with it what the LBM still holds for us */
    sigprocmask(SIG_SETMASK, &mask_given, NULL);
    for (int number = 1; number < 3; number++)
        while (copiers[number] > 0 && waitpid(copiers[number], NULL, 0) < 0 && errno == EINTR) continue;
}
