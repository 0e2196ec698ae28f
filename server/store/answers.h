/* Answers about a stored run that were computed before, as one image of bytes. The image is in
 * memory, or in a file <id>.kept of runs_dir:
 *
 *   "attnkept"               8 bytes
 *   version, checksum        uint32 each; the checksum is the CRC32C of srv_run.print (runs.h) and
 *                            of all that follows
 *   answers, latest first    uint32 sizes of key, type and body, then the three texts
 *
 * Numbers are in the byte order of the machine, so an image of another byte order has another
 * version. The key of an answer says what was asked, and which program and kernels computed the
 * answer. */
#ifndef SRV_ANSWERS_H
#define SRV_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/runs.h"

enum { SRV_ANSWERS_HEAD = 16 }; /* bytes before the first answer */

/* Returns whether an image is valid: its version is the present one, its checksum is right for a
 * run with this `print`, and its sizes add up. */
bool srv_answers_are_whole(const void *image, size_t size, uint64_t print);
/* Finds the answer with this key in a whole image. false: it has none. `out` points into the
 * image. */
bool srv_answers_find(const void *image, size_t size, const char *key, srv_run_answer *out);
/* Makes an image for a run with this `print`. The new answer comes first. Then follow as many
 * answers of the valid image `image` (may be NULL) as fit, except one with the same key. The caller
 * frees the new image with attn_free. NULL: memory ran out, or the answer alone is larger than an
 * image may be. */
void *srv_answers_add(const void *image, size_t size, uint64_t print, const char *key,
                      const srv_run_answer *answer, size_t *out_size);

#endif
