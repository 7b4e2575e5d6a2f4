/* The end of lbrun where the command, which stays, cannot be run. */

/* Says why the command cannot be run here, to the LBM too, which would take our end for the
   command's. */
static _Noreturn void not_run(int status, const char *why) {
    char *fields;
    size_t size;
    FILE *to = open_memstream(&fields, &size);
    put(to, STATUS, text("%d", status)), put(to, REASON, text("%.4000s", why));
    if (!fclose(to) && lbm >= 0) send_frame(NOT_RUN, fields, size);
    say_as(real_program ? "lbsh" : "lbrun", why);
    _exit(status);
}
