/* Shared by lbrun.c, lbsh.c and spare.c. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef NO_MEMORY /* what to do then; a program that uses text() defines it */
__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...) {
    char *made;
    va_list values;
    va_start(values, format);
    if (vasprintf(&made, format, values) < 0) NO_MEMORY;
    va_end(values);
    return made;
}
#endif

/* local/frames.py: a frame is a length (4 bytes, little endian), a tag and a body, often of
   fields. A field is a key, a length of the same kind and a value. */
enum { HEADER_BYTES = 5 };

static inline uint32_t length_at(const void *bytes) {
    const unsigned char *at = bytes;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
