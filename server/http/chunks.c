#include "http/chunks.h"

/* A line end before p, CR LF; false: there is another one. */
static bool ends_before(const char *from, const char *p) {
    return p - from >= 2 && p[-1] == '\n' && p[-2] == '\r';
}

bool srv_chunk_line_is_clean(const char *from, const char *data) {
    if (data <= from)
        return true;
    if (!ends_before(from, data))
        return false;
    const char *p = data - 2; /* behind the line's own characters */
    while (p > from && p[-1] != '\n' && p[-1] != '\r')
        p--;
    return p == from || ends_before(from, p); /* the end of the chunk before */
}
