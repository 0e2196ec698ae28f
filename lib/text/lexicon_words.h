/* Rows of the lexicon's tables, and the words that they become. */
#ifndef ATTN_TEXT_LEXICON_WORDS_H
#define ATTN_TEXT_LEXICON_WORDS_H

#include "text/lexicon.h"

enum { ATTN_ROW_CELLS = 10 };

/* One row of a table: a copy of its text, divided into cells. */
typedef struct attn_row {
    char text[128];
    char *cells[ATTN_ROW_CELLS];
    size_t count;
    bool small; /* the row begins with "+": the word is in the small lexicon too */
} attn_row;

typedef struct attn_row_reader {
    attn_arena *arena;
    bool failed; /* memory ran out */
    bool small;  /* read only rows with "+" */
} attn_row_reader;

/* Reads the next row and moves *table behind it. Returns false at the end of the table. */
bool attn_row_next(const char **table, attn_row *out);
/* Returns the number of rows of a table; with `small`, of those with "+". */
size_t attn_rows_count(const char *table, bool small);
/* Returns a copy of a text. If memory runs out, sets in->failed and returns "". */
const char *attn_row_keep(attn_row_reader *in, const char *text);

/* Make a word of a row and change the texts of its cells. The comment at a table tells which cells
 * its rows have. Return false if the row is malformed. If memory runs out, they set in->failed, and
 * the word is not complete. attn_read_proper makes a name with a capital letter. */
bool attn_read_noun(attn_row_reader *in, attn_row *r, attn_noun *out);
bool attn_read_name(attn_row_reader *in, attn_row *r, attn_noun *out);
bool attn_read_proper(attn_row_reader *in, attn_row *r, attn_noun *out);
bool attn_read_adjective(attn_row_reader *in, attn_row *r, attn_adjective *out);
bool attn_read_role(attn_row_reader *in, attn_row *r, attn_role *out);
bool attn_read_verb(attn_row_reader *in, attn_row *r, attn_verb *out);
bool attn_read_going(attn_row_reader *in, attn_row *r, attn_verb *out);
bool attn_read_posture(attn_row_reader *in, attn_row *r, attn_posture *out);
bool attn_read_adverb(attn_row_reader *in, attn_row *r, attn_adverb *out);
bool attn_read_preposition(attn_row_reader *in, attn_row *r, attn_preposition *out);

#endif
