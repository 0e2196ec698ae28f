#include "base/sweep.h"

#include <assert.h>
#include <stddef.h>

enum { LANE_MOST = 512 }; /* largest size of a lane's struct, in bytes */

/* Takes all arrays from an area and returns the lanes. If the area only counts, there is no memory
 * for the structs of the lanes, so all of them are filled in `lane`, one after another. */
static char *place_all(const attn_sweep *s, void *work, size_t slots, attn_area *area) {
    char *lanes = attn_area_take(area, slots, s->lane_size);
    _Alignas(max_align_t) char lane[LANE_MOST];
    assert(s->lane_size <= sizeof lane);
    for (size_t i = 0; i < slots; i++)
        s->place_lane(work, area, area->base ? lanes + i * s->lane_size : lane);
    if (s->place)
        s->place(work, area);
    return lanes;
}

attn_area attn_sweep_count(const attn_sweep *s, void *work, size_t slots) {
    attn_area counted = {0};
    place_all(s, work, slots, &counted);
    return counted;
}

void *attn_sweep_open(const attn_sweep *s, void *work, size_t slots, attn_arena *arena) {
    const attn_area counted = attn_sweep_count(s, work, slots);
    attn_area area;
    return attn_area_open(&area, &counted, arena) ? place_all(s, work, slots, &area) : NULL;
}

/* The context of the pieces of a wave. The pool counts them from 0; piece 0 of the wave is piece
 * `first` of the sweep. */
typedef struct wave_pieces {
    const attn_sweep *sweep;
    void *work;
    size_t first;
} wave_pieces;

static attn_status run_piece_of_wave(void *ctx, size_t index, size_t lane, attn_error *err) {
    const wave_pieces *w = ctx;
    return w->sweep->piece(w->work, w->first + index, lane, err);
}

attn_status attn_sweep_run(const attn_sweep *s, void *work, size_t pieces, size_t wave,
                           attn_pool *pool, const attn_control *control, attn_error *err) {
    const size_t most = wave && wave < pieces ? wave : pieces;
    attn_status status = ATTN_OK;
    for (wave_pieces w = {s, work, 0}; w.first < pieces && !status; w.first += most) {
        const size_t count = pieces - w.first < most ? pieces - w.first : most;
        status = attn_pool_run(pool, count, run_piece_of_wave, &w, control, err);
        if (!status && s->merge)
            s->merge(work, w.first, count);
    }
    return status;
}
