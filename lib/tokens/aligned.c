/* Texts in which each byte has an origin, and which are divided into pieces. */
#include <string.h>

#include "tokens/aligned.h"
#include "tokens/character.h"
#include "json/json_scan.h"

/* Enlarges an array of `used` elements in an arena to at least `wanted` elements. */
static bool grow(attn_arena *arena, void **array, size_t used, size_t *room, size_t wanted,
                 size_t size) {
    if (wanted <= *room)
        return true;
    const size_t larger = wanted > SIZE_MAX / 2 ? wanted : wanted + wanted / 2 + 16;
    void *fresh = attn_arena_array(arena, larger, size);
    if (!fresh)
        return false;
    if (used)
        memcpy(fresh, *array, used * size);
    *array = fresh;
    *room = larger;
    return true;
}

static bool make_room(attn_aligned *a, size_t more) {
    size_t wanted, room = a->room;
    void *text = a->text, *origins = a->origins;
    if (!attn_size_add(a->size, more, &wanted) ||
        !grow(a->arena, &text, a->size, &room, wanted, 1) ||
        !grow(a->arena, &origins, a->size, &a->room, wanted, sizeof *a->origins))
        return false;
    a->text = text;
    a->origins = origins;
    return true;
}

bool attn_aligned_bytes(attn_aligned *a, const char *bytes, size_t n, attn_origin origin) {
    if (!make_room(a, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        a->text[a->size] = bytes[i];
        a->origins[a->size++] = origin;
    }
    return true;
}

bool attn_aligned_put(attn_aligned *a, int32_t c, attn_origin origin) {
    char bytes[4];
    const size_t n = (size_t)(attn_put_utf8(bytes, (uint32_t)c) - bytes);
    return attn_aligned_bytes(a, bytes, n, origin);
}

bool attn_aligned_piece(attn_aligned *a, size_t begin, size_t end, int32_t id) {
    void *pieces = a->pieces;
    if (begin == end)
        return true;
    if (!grow(a->arena, &pieces, a->count, &a->piece_room, a->count + 1, sizeof *a->pieces))
        return false;
    a->pieces = pieces;
    a->pieces[a->count++] = (attn_piece){begin, end, id};
    return true;
}

bool attn_aligned_open(attn_aligned *a, const char *text, size_t size, attn_arena *arena) {
    *a = (attn_aligned){.arena = arena};
    if (!make_room(a, size))
        return false;
    if (size)
        memcpy(a->text, text, size);
    a->size = size;
    for (size_t at = 0, n; at < size; at += n) {
        attn_character_read(text + at, &n);
        for (size_t i = 0; i < n; i++)
            a->origins[at + i] = (attn_origin){(uint32_t)at, (uint32_t)(at + n)};
    }
    return attn_aligned_piece(a, 0, size, -1);
}

bool attn_aligned_copy(attn_aligned *a, const attn_aligned *from, size_t begin, size_t end) {
    const size_t n = end - begin;
    if (!make_room(a, n))
        return false;
    memcpy(a->text + a->size, from->text + begin, n);
    memcpy(a->origins + a->size, from->origins + begin, n * sizeof *a->origins);
    a->size += n;
    return true;
}

bool attn_aligned_changes(attn_aligned *a, const attn_aligned *from, const attn_piece *piece,
                          const attn_change *changes, size_t count) {
    size_t at = piece->begin, n;
    for (size_t i = 0; i < count; i++) {
        const bool inserted = changes[i].change > 0 || at >= piece->end;
        const attn_origin none = {from->origins[piece->begin].begin,
                                  from->origins[piece->begin].begin};
        const attn_origin origin = !inserted           ? from->origins[at]
                                   : at > piece->begin ? from->origins[at - 1]
                                                       : none;
        for (int32_t passed = 0; !inserted && at < piece->end && passed <= -changes[i].change;
             passed++) {
            attn_character_read(from->text + at, &n);
            at += n;
        }
        if (!attn_aligned_put(a, changes[i].c, origin))
            return false;
    }
    return true;
}

bool attn_aligned_divide(attn_aligned *a, attn_divide *divide, const void *with) {
    attn_piece *old = a->pieces;
    const size_t count = a->count, room = a->piece_room;
    a->pieces = a->spare_pieces;
    a->piece_room = a->spare_piece_room;
    a->count = 0;
    for (size_t i = 0; i < count; i++)
        if (!(old[i].id >= 0 ? attn_aligned_piece(a, old[i].begin, old[i].end, old[i].id)
                             : divide(a, old[i].begin, old[i].end, with)))
            return false;
    a->spare_pieces = old;
    a->spare_piece_room = room;
    return true;
}

bool attn_aligned_rewrite(attn_aligned *a, attn_rewrite *rewrite, const void *with) {
    attn_aligned to = {.arena = a->arena,
                       .text = a->spare_text,
                       .origins = a->spare_origins,
                       .room = a->spare_room,
                       .pieces = a->spare_pieces,
                       .piece_room = a->spare_piece_room,
                       .spare_text = a->text,
                       .spare_origins = a->origins,
                       .spare_room = a->room,
                       .spare_pieces = a->pieces,
                       .spare_piece_room = a->piece_room};
    if (!make_room(&to, a->size))
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const attn_piece *piece = &a->pieces[i];
        const size_t begin = to.size;
        const bool made = piece->id >= 0 ? attn_aligned_copy(&to, a, piece->begin, piece->end)
                                         : rewrite(&to, a, piece, with);
        if (!made || !attn_aligned_piece(&to, begin, to.size, piece->id))
            return false;
    }
    *a = to;
    return true;
}
