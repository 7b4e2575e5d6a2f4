/* Who decides what is found at a path (lbd/launch/own_places.py). */

static bool is_ours(uid_t user) { return !user || user == geteuid(); } /* or root's */

/* Returns whether root and we alone decide what is at this absolute path. */
static bool is_ours_alone(const char *path) {
    struct stat above, link, itself;
    if (*path != '/' || stat("/", &above)) return false;
    for (const char *end = path; *end; above = itself) {
        end += 1 + strcspn(end + 1, "/");
        char *part = text("%.*s", (int)(end - path), path);
        if (lstat(part, &link) || stat(part, &itself) || !is_ours(link.st_uid) ||
            !is_ours(itself.st_uid) ||
            (above.st_mode & 022 && (!(above.st_mode & S_ISVTX) || link.st_dev != above.st_dev)))
            return false;
    }
    return true;
}
