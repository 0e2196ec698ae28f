/* Replacements for libraries and devices that a browser does not have. Loops replace OpenBLAS and
 * zlib's CRC-32. Functions without a replacement, such as drawing a PNG, return an error. */
#include <attn/figure.h>
#include <attn/status.h>
#include <cblas.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "wire/zip_in.h"

/* --- products: c = alpha op(a) op(b) + beta c, by rows; beta 0 ignores what is in c --- */

#define PRODUCT(name, type)                                                                        \
    void name(enum CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, \
              type alpha, const type *a, int lda, const type *b, int ldb, type beta, type *c,      \
              int ldc) {                                                                           \
        (void)order;                                                                               \
        for (int i = 0; i < m; i++) {                                                              \
            type *row = c + (size_t)i * ldc;                                                       \
            for (int j = 0; j < n; j++)                                                            \
                row[j] = beta == 0 ? 0 : beta * row[j];                                            \
            for (int t = 0; t < k; t++) {                                                          \
                const type x =                                                                     \
                    alpha * (ta == CblasTrans ? a[(size_t)t * lda + i] : a[(size_t)i * lda + t]);  \
                for (int j = 0; j < n; j++)                                                        \
                    row[j] +=                                                                      \
                        x * (tb == CblasTrans ? b[(size_t)j * ldb + t] : b[(size_t)t * ldb + j]);  \
            }                                                                                      \
        }                                                                                          \
    }
PRODUCT(cblas_sgemm, float)
PRODUCT(cblas_dgemm, double)

void openblas_set_num_threads(int count) {
    (void)count;
}

int openblas_get_parallel(void) {
    return OPENBLAS_SEQUENTIAL;
}

/* --- pictures and archives --- */

static attn_status no_png(attn_error *err) {
    return attn_fail(err, ATTN_EUNSUPPORTED, "",
                     "the service in this page draws SVG; the browser makes a PNG of it");
}

attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err) {
    (void)svg, (void)scale, (void)bytes;
    return no_png(err);
}

attn_status attn_figure_png(const attn_text *svg, double scale, attn_arena *arena, const void **png,
                            size_t *bytes, attn_error *err) {
    (void)svg, (void)scale, (void)arena, (void)png, (void)bytes;
    return no_png(err);
}

bool attn_figure_has_fonts(void) {
    return true;
}

bool srv_zip_read(srv_request *req, srv_zip_member **members, size_t *count) {
    (void)members, (void)count;
    return srv_problem(req, SRV_MEDIA_TYPE, NULL, "the service in this page reads no npz");
}

/* --- the system --- */

ssize_t getrandom(void *to, size_t size, unsigned flags) {
    (void)flags;
    return getentropy(to, size < 256 ? size : 256) ? -1 : (ssize_t)(size < 256 ? size : 256);
}

int madvise(void *block, size_t size, int advice);
int madvise(void *block, size_t size, int advice) {
    (void)block, (void)size, (void)advice;
    return 0;
}

/* zlib's CRC-32 (RFC 1952), bit by bit. */
unsigned long crc32_z(unsigned long crc, const unsigned char *bytes, size_t size);
unsigned long crc32_z(unsigned long crc, const unsigned char *bytes, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc & 0xffffffffu;
}
