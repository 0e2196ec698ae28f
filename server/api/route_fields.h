/* The bodies that routes take. */
#ifndef SRV_ROUTE_FIELDS_H
#define SRV_ROUTE_FIELDS_H

#include "wire/fields.h"

extern const srv_field srv_attention_fields[];
extern const srv_field srv_masks_fields[];
extern const srv_field srv_positions_fields[];
extern const srv_field srv_heatmaps_fields[];

#endif
