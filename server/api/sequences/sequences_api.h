/* Reads the sequences that requests to a model send as texts, tokens or ids, and the fields that
 * hide tokens of the source. */
#ifndef SRV_SEQUENCES_API_H
#define SRV_SEQUENCES_API_H

#include <stddef.h>

#include "api/common/scope.h"
#include "api/common/warnings.h"
#include "store/model_registry.h"

/* Source or target in a request. */
typedef struct srv_side {
    srv_strings texts;
    srv_words tokens;
    attn_tensor ids;
} srv_side;

/* Rows of a field table for the three fields of source or target. `lead` is "" or "target_". */
#define SRV_SIDE_ROWS(T, member, lead, ids_name, what)                                             \
    SRV_NAMED_ROW(T, lead "text", member.texts, SRV_TEXTS,                                         \
                  what " as text, one or a list; it is split into words in lower case, or into "   \
                       "the sub-words of a model that has them, with the special tokens that the " \
                       "files of a model of another program put around a text."),                  \
        SRV_NAMED_ROW(T, lead "tokens", member.tokens, SRV_WORDS,                                  \
                      what " as words of the vocabulary, a list or a list of lists."),             \
        SRV_NAMED_ROW(T, ids_name, member.ids, SRV_TENSOR,                                         \
                      what " as ids, [S] or [B, S]; the padding id (0) at the end is cut off.",    \
                      .accepts = SRV_T_INT,                                                        \
                      .ragged = "pad the sequences to one length with the id 0")
/* The unit of `offsets`. A character beyond U+FFFF is two units of UTF-16, as in JavaScript. */
typedef enum srv_offset_unit { SRV_BYTES, SRV_CODEPOINTS, SRV_UTF16 } srv_offset_unit;
extern const char *const srv_offset_units[]; /* "bytes", "codepoints", "utf16", ended by NULL */

#define SRV_OFFSET_UNIT_ROW(T)                                                                     \
    SRV_ENUM_ROW(T, offset_unit, srv_offset_units,                                                 \
                 "The unit of the tokens' offsets in a text: bytes (default) of UTF-8, "           \
                 "codepoints, or utf16 (code units, which are the indices of strings in "          \
                 "JavaScript).")

/* Which tokens of the source the model may attend to. */
typedef struct srv_sight_input {
    srv_int_lists hide;
    attn_tensor token_mask;
} srv_sight_input;

/* Rows of a field table for hide and token_mask. `member` of T is a srv_sight_input. */
#define SRV_SIGHT_ROWS(T, member)                                                                  \
    SRV_NAMED_ROW(T, "hide", member.hide, SRV_LISTS,                                               \
                  "Positions of source tokens that no attention of the model sees, a list, or "    \
                  "for a batch a list of lists. The LSTM of a seq2seq encoder still reads them."), \
        SRV_NAMED_ROW(T, "token_mask", member.token_mask, SRV_TENSOR,                              \
                      "Key padding of the source, [S] or [B, S]: true where the model may attend " \
                      "to the token. Axes of 1 between B and S are allowed. hide may hide more.",  \
                      .accepts = SRV_T_BOOL)

typedef struct srv_sequence srv_sequence;
struct srv_sequence {
    int32_t *ids;
    int32_t unknown; /* the id that stands for unknown words */
    size_t length;
    const char **tokens; /* as sent or, if ids were sent, the tokenizer's names of the ids */
    /* [length + 1, 2] begin and end of each token in the text, in the unit of the request. The last
     * pair is an empty range at the end of the text. NULL: no text was sent. */
    size_t *offsets;
    const char *text; /* the text that was sent; NULL: tokens or ids were sent */
    size_t *spans;    /* [length + 1, 2] `offsets` in bytes; NULL: no text was sent */
    uint8_t *keep;    /* [length] 0: the token is hidden from attention; NULL: none is hidden */
    /* [length] number of the word that a token is part of, -1: it stands alone; NULL: no text was
     * sent, or tokens are words */
    int32_t *words;
    /* [length] 1 for tokens of a second text, as the template says; NULL: all 0 */
    int32_t *segments;
    const srv_sequence *merged; /* the words made by srv_models_words, if the answer has them */
};

typedef struct srv_sequences {
    srv_sequence *items;
    size_t count, longest;
} srv_sequences;

/* The two sides of a model. */
enum { SRV_SOURCE, SRV_TARGET };

typedef struct srv_reading {
    srv_request *req;
    const srv_model *model;
    const srv_scope *scope;
    int which;                /* SRV_SOURCE or SRV_TARGET */
    const char *names[3];     /* names of the fields for text, tokens and ids */
    size_t most;              /* largest number of tokens of a sequence */
    bool adds_begin;          /* the model adds a begin token to targets */
    bool adds_end;            /* the model adds an end token to targets */
    srv_offset_unit unit;     /* unit of srv_sequence.offsets */
    const srv_strings *pairs; /* second texts, as many as texts; NULL: none */
    srv_warnings *warnings;   /* the list to which warnings (unknown words) are added */
} srv_reading;

/* Returns the side that the fields `text`, `tokens` and `token_ids` belong to: the source or, for a
 * model without an encoder, the target. */
int srv_models_text_side(const srv_model *model);
/* Returns whether the model has attention. */
bool srv_models_attends(const srv_model *model);
/* Returns the number of heads of the model's last attention, which is cross-attention or, in a
 * model with only an encoder or a decoder, self-attention. 0: the model has no attention. */
size_t srv_models_heads(const srv_model *model);
/* Returns whether the model reads a side, SRV_SOURCE or SRV_TARGET. */
bool srv_models_reads(const srv_model *model, int side);
/* Returns the tokenizer of a side, SRV_SOURCE or SRV_TARGET. NULL: the model has only a decoder,
 * and therefore no source. */
const attn_tokenizer *srv_models_tokenizer(const srv_model *model, int side);
/* Reads the sequences of one side. If the request has no sequences, out->count is 0. If the model
 * adds an end token itself (r->adds_end), an end token at the end of a target is removed. false: a
 * problem is set. */
bool srv_models_read(const srv_reading *r, const srv_side *side, srv_sequences *out);
/* Makes a sequence from ids. Its tokens are the model's words for the ids. false: a problem is
 * set. */
bool srv_models_name(srv_request *req, const srv_model *model, int which, const int32_t *ids,
                     size_t length, srv_sequence *out);
/* Returns the ids of all sequences as an array [count, width], in which zeros pad the end of each
 * row. Sets *lengths [count] to the lengths of the sequences. If `before` is not negative, each row
 * begins with this id. If the sequence is then longer than the row, its last id is left out. NULL:
 * a problem is set. */
int32_t *srv_models_pad(srv_request *req, const srv_sequences *s, size_t width, int32_t before,
                        int64_t **lengths);
/* Sets *segments to an array [count, longest] for attn_batch.source_segments, or to NULL if all
 * tokens are of segment 0. false: a problem is set. */
bool srv_models_segments(srv_request *req, const srv_sequences *s, const int32_t **segments);
/* Merges the tokens of a sequence to words. In *out, `tokens` are the texts of the words, and
 * `spans` [length, 2] hold the index of their first token and the index after their last token. A
 * token that belongs to no word is a word of its own. false: a problem is set. */
bool srv_models_words(srv_request *req, const srv_sequence *s, srv_sequence *out);
/* Writes the sequence as {"tokens", "ids", "offsets", "unknown", "hidden_tokens"}. "unknown" and
 * "hidden_tokens" are lists of positions, and are left out if they would be empty. */
void srv_models_put(attn_json_text *j, const srv_sequence *s);
/* Sets `keep` of the sequences from the fields hide and token_mask, and warns if a source has no
 * visible token. false: a problem is set. */
bool srv_models_hide(const srv_scope *scope, const srv_sight_input *in, const srv_model *model,
                     srv_sequences *source, srv_warnings *warnings);
/* Returns the tokens of a sequence as texts for people (attn_tokenizer_shown), for labels. Words
 * that srv_models_words has made stay as they are. NULL: a problem is set. */
const char **srv_models_shown(srv_request *req, const srv_model *model, int which,
                              const srv_sequence *s);
/* Returns whether `keep` of the sequences is set. It is set if the request has hide or
 * token_mask. */
bool srv_models_hides(const srv_sequences *s);
/* Sets *keep to an array [count, longest] for attn_batch.source_keep, or to NULL if the request has
 * neither hide nor token_mask. false: a problem is set. */
bool srv_models_keep(srv_request *req, const srv_sequences *s, const uint8_t **keep);

/* The schema ModelTokens. */
extern const srv_field srv_sequence_answers[];

#endif
