/* Reads zip archives, such as NumPy's .npz files, from memory. */
#ifndef SRV_ZIP_IN_H
#define SRV_ZIP_IN_H

#include "request/request.h"

enum { SRV_ZIP_MEMBERS = 256 }; /* largest number of members of an archive */

typedef struct srv_zip_member {
    const char *name; /* the name in the directory, with a NUL */
    const char *data; /* decoded; in the body if the member is stored, otherwise in the arena */
    size_t size;
} srv_zip_member;

/* Reads the archive that is the body of the request. Members are stored or deflated, and their
 * CRC-32 is checked. The decoded members together may have at most max_body_bytes, and at most
 * max_inflate_ratio times the size of the body or 1 MiB, whichever is more. This is checked before
 * anything is decoded. The function refuses encrypted members, archives of several files,
 * directories in the zip64 format, extra bytes before or behind the archive, and repeated names.
 * false: a problem is set. */
bool srv_zip_read(srv_request *req, srv_zip_member **members, size_t *count);

#endif
