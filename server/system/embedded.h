/* Files that embed.sh puts into the binary. A file of config/ has its path below config/ as name,
 * such as "examples/causal.json"; any other file has its path. A NUL byte follows each file. */
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
