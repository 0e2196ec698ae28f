/* Files of config/ inside the binary (made by embed.sh): "attnd.json", "examples/causal.json", …,
 * in order of their names; each is followed by a NUL byte. */
#ifndef SRV_EMBEDDED_H
#define SRV_EMBEDDED_H

#include <stddef.h>

typedef struct srv_file {
    const char *name; /* below config/ */
    const char *data;
    size_t size;
} srv_file;

extern const srv_file srv_embedded[]; /* ended by a row with name NULL */

#endif
