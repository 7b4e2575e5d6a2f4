/* How lbrun.c talks to this host's LBM: frames of fields, as in local/frames.py, and forwarded
   signals. */

#define NO_MEMORY _exit(125)
#include "../../launch/program.h"
#include "../../local/client_tags.h"

#include <poll.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/times.h>
#include <sys/un.h>
#include <time.h>

enum { FAILED = 125, CANNOT_EXECUTE = 126, NOT_FOUND = 127, DEPTH_MAX = 32, NULL_DEVICE = 0x103 };
enum { SILENT_MS = 3000, RESTART_S = 30, FORCE_TICKS = 100, FRAME_MAX = 1 << 20, CONFIG_MAX = 1 << 18 };

enum { SILENCE = 0, GONE = -1, UNREAD = -2 }; /* returned instead of a tag */

/* Signals for the command rather than for lbrun; queued jobs have no terminal, so fewer. */
static const char FORWARDED[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGTSTP,
                                 SIGCONT, SIGWINCH, 0};
static const char FORWARDED_TO_QUEUE[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, 0};

static int closed_fds, lbm = -1, signals = -1, ended_by, first_ms = SILENT_MS, later_ms = -1;
static bool spoken, placed, stop_asked, forced;
static int frames_sent; /* the first is the request */
static sigset_t unheard; /* signals no remote command received, since none had begun */
static clock_t interrupted = -FORCE_TICKS;
static unsigned long long typed_signals; /* INT and QUIT received: bit N for signal N */
static unsigned long long ignored; /* ignored signals, bit N - 1 for N: the command inherits them */
static int given[] = {0, 1, 2}; /* what the command gets as these; see copies.h */
static const char *restarting = ""; /* a file that exists while one LBM makes way for the next */
static char *body; /* of the last frame, with a NUL added */
static size_t body_size;

static void put_bytes(FILE *to, char key, const char *value, size_t bytes) {
    int size = (int)bytes;
    fprintf(to, "%c%c%c%c%c", key, size, size >> 8, size >> 16, size >> 24);
    fwrite(value, 1, bytes, to);
}

static void put(FILE *to, char key, const char *value) { put_bytes(to, key, value, strlen(value)); }

/* Sends one frame; DESCRIPTORS goes with those of 0, 1, 2 that are open. Returns false if it is
   not accepted in time. */
static bool send_frame(char tag, char *fields, size_t size) {
    char head[HEADER_BYTES] = {(char)size, (char)(size >> 8), (char)(size >> 16), (char)(size >> 24), tag};
    struct iovec parts[] = {{head, sizeof head}, {fields, size}};
    struct { struct cmsghdr head; int numbers[3]; } control =
        {.head = {CMSG_LEN(0), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    for (int number = 0, count = 0; tag == DESCRIPTORS && number < 3; number++)
        if (!(closed_fds >> number & 1)) {
            control.numbers[count++] = given[number];
            message.msg_control = &control;
            message.msg_controllen = control.head.cmsg_len += sizeof number;
        }
    frames_sent++;
    int flags = MSG_NOSIGNAL | (size < 2 ? MSG_DONTWAIT : 0); /* sending a signal must not block */
    ssize_t sent = sendmsg(lbm, &message, flags);
    size_t whole = size + HEADER_BYTES, done = sent < 0 ? 0 : (size_t)sent;
    while (sent >= 0 && done >= HEADER_BYTES && done < whole) { /* only the next call says why */
        sent = send(lbm, fields + done - HEADER_BYTES, whole - done, flags);
        if (sent > 0) done += (size_t)sent;
    }
    return done == whole;
}

/* From here on signals are for the command; those that the caller ignores stay ignored. */
static void catch_signals(const char *forwarded) {
    sigset_t caught = {0};
    struct sigaction now;
    for (int one = 1; one <= 64; one++)
        if (!sigaction(one, NULL, &now) && now.sa_handler == SIG_IGN) ignored |= 1ull << (one - 1);
        else if (strchr(forwarded, one)) sigaddset(&caught, one);
    sigprocmask(SIG_BLOCK, &caught, NULL);
    signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Forwards the signals received; a second interrupt within a second kills the command. */
static void pass_signals_on(void) {
    struct signalfd_siginfo came;
    struct tms used;
    while (read(signals, &came, sizeof came) == sizeof came) {
        int number = (int)came.ssi_signo;
        if (number == SIGINT && times(&used) - interrupted < FORCE_TICKS)
            forced = send_frame(FORCE, NULL, 0);
        if (number == SIGINT) interrupted = times(&used);
        stop_asked = stop_asked || number == SIGTSTP;
        if (number == SIGTSTP && !placed && !raise(SIGSTOP)) continue; /* after that: STOPPED */
        send_frame(SIGNAL, &(char){(char)number}, 1);
        if (number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM)
            ended_by = number;
        if (number == SIGINT || number == SIGQUIT) typed_signals |= 1ull << number;
        if (!placed && (number == SIGUSR1 || number == SIGUSR2)) sigaddset(&unheard, number);
    }
}

static bool is_restarting(void) {
    struct stat marker;
    return !stat(restarting, &marker) && time(NULL) - marker.st_mtime < RESTART_S;
}

/* Returns the tag of the next frame, with its fields in `body`; SILENCE if none comes in time;
   UNREAD if the LBM has ended before it had read the one thing we sent: our request. */
static int next_frame(void) {
    bool is_first = !spoken;
    struct pollfd both[] = {{lbm, POLLIN, 0}, {signals, POLLIN, 0}};
    char head[HEADER_BYTES];
    while (!both[0].revents) {
        if (!poll(both, 2, spoken ? later_ms : first_ms) && (spoken || !is_restarting()))
            return SILENCE;
        if (both[1].revents) pass_signals_on();
    }
    spoken = true;
    errno = 0; /* at the end of the stream, recv() leaves it as it is */
    if (recv(lbm, head, sizeof head, MSG_WAITALL) != sizeof head)
        return is_first && errno == ECONNRESET && frames_sent == 1 ? UNREAD : GONE;
    body_size = length_at(head);
    body = body_size > FRAME_MAX ? NULL : calloc(1, body_size + 1);
    if (!body || (body_size && recv(lbm, body, body_size, MSG_WAITALL) != (ssize_t)body_size))
        return GONE;
    return head[HEADER_BYTES - 1];
}

/* Returns a field of the last frame, "" if it has no such field. */
static char *field(char key) {
    unsigned size;
    for (size_t at = 0; at + HEADER_BYTES <= body_size; at += HEADER_BYTES + size) {
        size = length_at(body + at + 1);
        if (size > body_size - at - HEADER_BYTES) break;
        if (body[at] == key) return text("%.*s", (int)size, body + at + HEADER_BYTES);
    }
    return "";
}

/* -- showing text from an LBM or another host (lbd/text/one_line.py)
   ------------------------------ */

#define WHITE " \t\n\v\f\r"
enum { SHOWN_MAX = 8000 };

/* Control characters, characters that change text direction, and invisible ones. */
static const unsigned UNSEEN[][2] = {
    {0, 0x1f}, {0x7f, 0xa0}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f},
    {0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
    {0xfffe, 0xffff}, {0xe0000, 0x10ffff},
};

/* Returns the length in bytes of the character at `at`; negative if it must not be shown or is
   not UTF-8. */
static int shown_size(const char *at) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned point = (unsigned char)*at;
    int size = point < 0x80 ? 1 : point < 0xc0 ? 0 : point < 0xe0 ? 2 : point < 0xf0 ? 3 : 4;
    if (!size || point > 0xf4) return -1;
    if (size > 1) point &= 0x7fu >> size;
    for (int i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) return -1; /* also true of the final NUL */
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < least[size] || point > 0x10ffff) return -1;
    for (size_t i = 0; i < sizeof UNSEEN / sizeof *UNSEEN; i++)
        if (point >= UNSEEN[i][0] && point <= UNSEEN[i][1]) return -size;
    return size;
}

/* Collapses white space to single spaces, replaces unprintable characters by `?`, and cuts the
   rest. */
static char *one_line(const char *said) {
    char *line = malloc(4 * SHOWN_MAX + sizeof "…"), *end = line;
    if (!line) _exit(FAILED);
    said += strspn(said, WHITE);
    for (int count = 0; *said && count < SHOWN_MAX; count++) {
        int size = shown_size(said);
        if (strchr(WHITE, *said)) {
            said += strspn(said, WHITE);
            if (*said) *end++ = ' ';
            continue;
        }
        if (size > 0) end = mempcpy(end, said, (size_t)size);
        else *end++ = '?';
        said += abs(size);
    }
    strcpy(end, *said ? "…" : "");
    return line;
}

static int shown_width(const char *from, const char *end) {
    int width = 0;
    for (; from < end; from++) width += (*from & 0xc0) != 0x80;
    return width;
}

/* Returns the end of a word, or of what is quoted as a whole if it fits. */
static const char *unbroken(const char *from, int columns) {
    const char *word = from + strcspn(from, " "), *end = word;
    for (;; end += 1 + strcspn(end + 1, " ")) {
        bool is_open = false;
        for (const char *at = from; at < end; at++) is_open ^= *at == '`';
        if (!is_open) return shown_width(from, end) > columns ? word : end;
        if (!*end) return word;
    }
}

/* Breaks a line at words for this width; the terminal may be in raw mode. */
static const char *at_words(const char *line, int columns) {
    if (shown_width(line, line + strlen(line)) <= columns) return line;
    char *lines = malloc(4 * strlen(line) + 1), *put = lines;
    if (!lines) _exit(FAILED);
    for (int used = 0; *line; line += *line == ' ') {
        const char *end = unbroken(line, columns - 2);
        int width = shown_width(line, end);
        bool is_full = used && used + 1 + width > columns;
        if (used) put = stpcpy(put, is_full ? "\r\n  " : " ");
        used = (is_full ? 2 : used + !!used) + width;
        put = mempcpy(put, line, (size_t)(end - line));
        line = end;
    }
    *put = 0;
    return lines;
}
