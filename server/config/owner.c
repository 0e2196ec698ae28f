#include "config/owner.h"

#include <stddef.h>

srv_owner srv_owner_of(const char *name) {
    srv_owner hash = 0xcbf29ce484222325u;
    if (!name)
        return 0;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash ? hash : 1;
}
