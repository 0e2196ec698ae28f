/* Chooses the instruction set and finds its kernel tables, which processor_x86.c or
 * processor_other.c makes. The choice and the tables are global variables. They are set once, at
 * the first use or by attn_isa_choose. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "kernels/processor.h"

static const char *const names[ATTN_ISA_COUNT] = {"ref", "avx2", "avx512", "amx"};

static _Atomic int chosen = -1;
static _Atomic int forced;
static _Atomic(const char *) chosen_why = "not chosen yet";

static attn_kernel_tables tables;
static bool available[ATTN_ISA_COUNT]; /* the results of attn_isa_available */

static void make_tables(void) {
    attn_processor_tables(tables);
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++)
        available[isa] = attn_isa_available((attn_isa)isa);
}

const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
    return tables[isa][precision][tanh_score];
}

/* A table for scores with tanh has plain products. */
const attn_kernels *attn_kernels_of(attn_isa isa) {
    return attn_kernels_with(isa, ATTN_PRECISION_FP32, true);
}

bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out) {
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++) {
        const attn_kernels *k = attn_kernels_with((attn_isa)isa, precision, tanh_score);
        if ((available[isa] || isa == (int)attn_isa_current()) && strcmp(k->name, name) == 0) {
            *out = (attn_isa)isa;
            return true;
        }
    }
    return false;
}

const char *const attn_precision_words[ATTN_PRECISION_COUNT + 1] = {"fp32", "fast", "bf16"};

const char *attn_precision_name(attn_precision precision) {
    return (unsigned)precision < ATTN_PRECISION_COUNT ? attn_precision_words[precision] : "unknown";
}

const char *attn_isa_name(attn_isa isa) {
    return (unsigned)isa < ATTN_ISA_COUNT ? names[isa] : "unknown";
}

bool attn_isa_parse(const char *name, attn_isa *out) {
    for (int i = 0; i < ATTN_ISA_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (attn_isa)i;
            return true;
        }
    return false;
}

attn_status attn_isa_choose(const char *name, attn_error *err) {
    const char *why = "requested";
    if (!name || !*name || strcmp(name, "auto") == 0) {
        name = getenv("ATTN_ISA");
        why = "ATTN_ISA";
    }
    attn_isa isa = ATTN_ISA_REF;
    const bool best = !name || !*name || strcmp(name, "auto") == 0;
    if (best) {
        for (int i = 0; i < ATTN_ISA_COUNT; i++)
            if (attn_isa_available((attn_isa)i))
                isa = (attn_isa)i;
        why = attn_processor_tiles() == ATTN_TILES_DIFFER
                  ? "best of this processor, but for amx, whose "
                    "products differ from what they should be"
                  : "best of this processor";
    } else if (!attn_isa_parse(name, &isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa",
                         "there is no instruction set \"%s\"; known are ref, avx2, avx512, amx",
                         name);
    } else if (!attn_kernels_of(isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa", "this processor lacks %s", name);
    }
    attn_kernels_of(isa); /* makes the tables before any request */
    forced = !best;
    chosen_why = why;
    chosen = (int)isa; /* set last, so that a thread that sees it also sees chosen_why */
    return ATTN_OK;
}

attn_isa attn_isa_current(void) {
    int isa = chosen;
    if (isa < 0) {
        if (attn_isa_choose(NULL, NULL) != ATTN_OK)
            attn_isa_choose("ref", NULL);
        isa = chosen;
    }
    return (attn_isa)isa;
}

const attn_kernels *attn_kernels_current(void) {
    return attn_kernels_of(attn_isa_current());
}

const attn_pointwise *attn_pointwise_current(void) {
    return attn_pointwise_of(attn_kernels_current()->isa);
}

bool attn_isa_forced(void) {
    attn_isa_current();
    return forced;
}

const char *attn_isa_tiles(void) {
    if (attn_isa_current() != ATTN_ISA_AMX)
        return NULL;
    return attn_processor_tiles() == ATTN_TILES_NATIVE ? "native" : "emulated";
}

const char *attn_isa_reason(void) {
    attn_isa_current();
    return chosen_why;
}
