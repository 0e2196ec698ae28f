/* Documents for browsers, which are made by putting HTML into an embedded file. */
#ifndef SRV_PAGE_H
#define SRV_PAGE_H

#include "request/request.h"

/* Sets the reply to the embedded file `name` of the page. `content` (HTML) replaces %content% in
 * it, and `root`, the relative address of GET / such as "../", replaces %root%. In a build without
 * the page the reply is the content alone. */
void srv_page_document(srv_request *req, const char *name, const char *root, const char *content);

#endif
