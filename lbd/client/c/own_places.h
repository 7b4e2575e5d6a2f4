/* Who decides what is found at a path (lbd/launch/own_places.py). */

#include <limits.h>

static bool is_ours(uid_t user) { return !user || user == geteuid(); } /* or root's */

/* Returns whether an entry of a directory is ours, and others can put nothing in its place. */
static bool is_kept(const struct stat *above, const struct stat *found) {
    bool cannot_mount = above->st_mode & S_ISVTX && found->st_dev == above->st_dev;
    return is_ours(found->st_uid) && (!(above->st_mode & 022) || cannot_mount);
}

/* Returns whether root and we alone decide what is at this absolute path. Links are followed one at a
   time, since one in the middle may lead through a directory where anybody may write. */
static bool is_ours_alone(const char *path) {
    struct stat root, above, found;
    char *place = "", *rest = text("%s", path), target[PATH_MAX] = {0};
    if (*path != '/' || stat("/", &root) || !is_ours(root.st_uid)) return false;
    above = root;
    for (int links = 0; *(rest += strspn(rest, "/"));) {
        size_t size = strcspn(rest, "/");
        char *name = text("%.*s", (int)size, rest), *entry = text("%s/%s", place, name);
        rest += size;
        if (!strcmp(name, ".")) continue;
        if (!strcmp(name, "..")) { /* begins again, as `place` has no links */
            char *last = strrchr(place, '/');
            rest = text("%.*s%s", last ? (int)(last - place) : 0, place, rest);
            place = "", above = root;
            continue;
        }
        if (lstat(entry, &found) || !is_kept(&above, &found)) return false;
        if (!S_ISLNK(found.st_mode)) {
            place = entry, above = found;
            continue;
        }
        ssize_t length = readlink(entry, target, sizeof target - 1);
        if (length < 0 || ++links > 40) return false; /* the kernel's limit */
        rest = text("%.*s%s", (int)length, target, rest);
        if (*target == '/') place = "", above = root;
    }
    return true;
}
