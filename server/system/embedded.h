/* The files that embed.sh compiles into the program. */
#ifndef SRV_EMBEDDED_H
#define SRV_EMBEDDED_H

#include <stddef.h>

typedef struct srv_file {
    const char *name; /* path in the repository without "config/"; files of the page: "web/…" */
    const char *data; /* `size` bytes, followed by a NUL */
    size_t size;
} srv_file;

extern const srv_file srv_embedded[]; /* ended by a row with name NULL */

#endif
