/* The one reply of every route that yields heatmaps: JSON, text, CSV, npy, SVG or PNG, as the
 * client's Accept says. */
#ifndef SRV_HEAT_REPLY_H
#define SRV_HEAT_REPLY_H

#include "api/figure_input.h"
#include "api/heat_input.h"
#include "api/plain.h"

/* Media types of a heatmap and of nothing else, beside JSON and text: a row of srv_routes whose
 * handler ends in one of the functions below may produce them. */
#define SRV_DRAWN (SRV_ACCEPT_SVG | SRV_ACCEPT_PNG | SRV_ACCEPT_CSV)

/* Does the client read one of SRV_DRAWN? Asking for a picture asks for the heatmap, and for nothing
 * else. A handler on the HTTP thread returns SRV_DEFER then: drawing is work for a worker. */
bool srv_draws(const srv_request *req);

/* Everything that such an answer is made of. */
typedef struct srv_heat_answer {
    const attn_heatmaps *maps;
    const srv_heat_input *in;
    const srv_labels *labels;       /* of the whole matrix */
    const srv_strings *titles;      /* one a head; or NULL */
    const srv_figure_input *figure; /* srv_figure_init at least */
    const attn_warnings *warnings;  /* or NULL */
    int decimals;                   /* -1 = shortest text */
    bool marks;                     /* a mask: 1 visible, 0 hidden */
} srv_heat_answer;

/* Most panels of one picture. */
#define SRV_PANELS 256

/* The reply in any type that a route of heatmaps alone produces; as JSON {"heads": .., "labels":
 * .., "pool": .., .., "warnings": ..}. */
void srv_heat_reply(srv_request *req, const srv_heat_answer *answer);
/* The same where srv_draws; the route answers JSON and text itself. */
void srv_heat_draw(srv_request *req, const srv_heat_answer *answer);
/* The cells as one float32 tensor, [R, C] or [maps, R, C], hidden ones 0. */
void srv_heat_npy(srv_request *req, const srv_heat_answer *answer);
/* SVG -> reply, as PNG if that is what is read. */
void srv_figure_reply(srv_request *req, const srv_figure_input *figure, attn_text *svg);

#endif
