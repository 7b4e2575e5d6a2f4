/* `lbrun -q` and `-d`, as in client/queue.py, for the options that lbrun.c knows. */

enum { HEARD_MS = 10000, ACCEPT_MS = 30000, REMARK_MS = 2000, INPUT_MAX = 11 << 20 };

static char *input = ""; /* sent along with the job */
static size_t input_size;

/* Reads standard input, unless it is a terminal or missing: all of it, or one byte more than any LBM
   takes, which then says why not. */
static void read_input(void) {
    struct stat kind;
    if (option['i'] || null_fds & 1 || fstat(0, &kind) ||
        !(S_ISREG(kind.st_mode) || S_ISFIFO(kind.st_mode) || S_ISSOCK(kind.st_mode)))
        return;
    if (!poll(&(struct pollfd){0, POLLIN, 0}, 1, REMARK_MS))
        say("reading standard input to send with the job (--no-stdin: do not)");
    if (!(input = malloc(INPUT_MAX + 1))) _exit(say("%s", strerror(errno)));
    for (ssize_t more = 1; more && input_size <= INPUT_MAX; input_size += (size_t)more)
        if ((more = read(0, input + input_size, INPUT_MAX + 1 - input_size)) < 0)
            _exit(say("standard input: %s", strerror(errno)));
}

static void put_wish(FILE *to) {
    if (option['d']) put(to, FLAGS, "d");
    put_bytes(to, INPUT_DATA, input, input_size);
}

/* Writes to our own output and handles signals meanwhile. When nobody reads it any more, SIGPIPE
   ends us, and with us the job. */
static void show(int to, const char *data, size_t size) {
    struct pollfd both[] = {{to, POLLOUT, 0}, {signals, POLLIN, 0}};
    while (size) {
        poll(both, 2, -1);
        if (both[1].revents) pass_signals_on();
        if (!both[0].revents) continue;
        ssize_t written = write(to, data, size < PIPE_BUF ? size : PIPE_BUF);
        if (written < 0 && errno == EPIPE) end_like(128 + SIGPIPE, SIGPIPE);
        if (written < 0)
            _exit(say("standard %s: %s", to == 1 ? "output" : "error", strerror(errno)));
        data += written, size -= (size_t)written;
    }
}

static _Noreturn void wait_in_queue(bool taken) {
    char *jobs = "", *named = "";
    bool several = false;
    first_ms = HEARD_MS, later_ms = ACCEPT_MS;
    if (!taken && errno != EPIPE && errno != ECONNRESET)
        _exit(say("cannot send the request to the LBM: %s", errno == EAGAIN ? "timed out" : strerror(errno)));
    for (;;) {
        int tag = next_frame();
        switch (tag) {
        case SILENCE:
            if (!spoken) _exit(say("this host's LBM does not answer (stopped?), so the queue cannot be reached"));
            _exit(say("no answer from the queue, which may have accepted the job: "
                      "check lbctl jobs, or use --idempotency-key"));
        case UNREAD:
        case GONE:
            if (!taken && !*jobs)
                _exit(say("the LBM hung up while the request was sent; nothing was queued"));
            if (!*jobs) _exit(say("lost contact with the LBM; the queue may have accepted the job"));
            _exit(say("lost contact with the LBM; %s %s: lbctl wait %s", named,
                      several ? "continue" : "continues", jobs));
        case UNFIT: _exit(say("%s", body));
        case QUEUED:
            jobs = one_line(body);
            several = strchr(jobs, '-');
            named = text(several ? "jobs %s" : "job %s", jobs);
            later_ms = -1;
            if (option['v'] && !option['d']) say("%s", named);
            if (!option['d']) break;
            body = text("%s\n", jobs);
            show(1, body, strlen(body));
            _exit(0);
        case WAITS:
            if (option['v'] || isatty(2)) say("%s %s: %s", named, several ? "wait" : "waits", body);
            break;
        case OUTPUT: show(1, body, body_size); break;
        case ERRORS: show(2, body, body_size); break;
        case WARN: say("%s", body); break;
        case DONE: end_as_told();
        }
        free(body); /* a job's output is unlimited */
    }
}
