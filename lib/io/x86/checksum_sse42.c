/* CRC32C by the instruction crc32 of SSE4.2. The instruction takes 3 cycles for 8 bytes, but a new
 * one can begin in each cycle, so three lanes of bytes are read at the same time. To join the
 * registers of two lanes, the first register is advanced as if the bytes of the second lane were
 * zeros, and the second register is added by XOR. Advancing over zeros is linear: the result is the
 * XOR of the results for each byte of the register, which are in tables. */
#include <nmmintrin.h>
#include <pthread.h>
#include <string.h>

#include "io/checksum.h"

enum { LANE = 4096 }; /* bytes of a lane */

/* moved[k][b] is the register after LANE zero bytes, if its byte k was b and the others were 0. */
static uint32_t moved[4][256];
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void) {
    uint32_t bits[32]; /* the register after LANE zero bytes, if only bit i was set before */
    for (int i = 0; i < 32; i++) {
        bits[i] = UINT32_C(1) << i;
        for (int n = 0; n < LANE; n += 4)
            bits[i] = _mm_crc32_u32(bits[i], 0);
    }
    for (int k = 0; k < 4; k++)
        for (int b = 0; b < 256; b++)
            for (int i = 0; i < 8; i++)
                moved[k][b] ^= b >> i & 1 ? bits[8 * k + i] : 0;
}

static uint32_t move(uint32_t state) {
    return moved[0][state & 255] ^ moved[1][state >> 8 & 255] ^ moved[2][state >> 16 & 255] ^
           moved[3][state >> 24];
}

static uint64_t eight_bytes(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint32_t three_lanes(uint32_t state, const unsigned char *p) {
    uint64_t a = state, b = 0, c = 0;
    for (const unsigned char *end = p + LANE; p < end; p += 8) {
        a = _mm_crc32_u64(a, eight_bytes(p));
        b = _mm_crc32_u64(b, eight_bytes(p + LANE));
        c = _mm_crc32_u64(c, eight_bytes(p + 2 * LANE));
    }
    return move(move((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

static uint32_t by_instruction(uint32_t state, const unsigned char *p, size_t n) {
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE)
        state = three_lanes(state, p);
    for (; n >= 8; n -= 8, p += 8)
        state = (uint32_t)_mm_crc32_u64(state, eight_bytes(p));
    for (; n; n--)
        state = _mm_crc32_u8(state, *p++);
    return state;
}

attn_crc32c_function *attn_crc32c_native(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2"))
        return NULL;
    pthread_once(&prepared, prepare);
    return by_instruction;
}
