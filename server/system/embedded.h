/* Files inside the binary (made by embed.sh), by their names below config/: "attnd.json",
 * "examples/causal.json", …; others by their path. Each is followed by a NUL byte. */
#ifndef SRV_EMBEDDED_H
#define SRV_EMBEDDED_H

#include <stddef.h>

typedef struct srv_file {
    const char *name;
    const char *data;
    size_t size;
} srv_file;

extern const srv_file srv_embedded[]; /* ended by a row with name NULL */

#endif
