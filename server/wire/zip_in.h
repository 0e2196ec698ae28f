/* Reads zip archives, such as NumPy's .npz files, from memory. */
#ifndef SRV_ZIP_IN_H
#define SRV_ZIP_IN_H

#include "request/request.h"

enum { SRV_ZIP_MEMBERS = 256 }; /* most members of an archive */

typedef struct srv_zip_member {
    const char *name; /* as it stands in the directory, with a NUL */
    const char *data; /* decoded; in the body if the member is stored, otherwise in the arena */
    size_t size;
} srv_zip_member;

/* Reads the archive that is the body of the request. Members are stored or deflated, and their
 * CRC-32 is checked. All members together may decode to max_inflate_ratio times the body, or to 1
 * MiB if that is more, and to max_body_bytes; this is checked before anything is decoded. Refused
 * are encrypted members, archives of several files, directories in the zip64 format, bytes before
 * or behind the archive that the directory does not account for, and repeated names. false: a
 * problem is set. */
bool srv_zip_read(srv_request *req, srv_zip_member **members, size_t *count);

#endif
