/* Documents for browsers. A document is an embedded file in which HTML replaces %content%. */
#ifndef SRV_PAGE_H
#define SRV_PAGE_H

#include "request/request.h"

/* Sets the reply to the embedded file `name` of the web page. In the file, `content` (HTML)
 * replaces %content%, and `root`, the relative address of GET / such as "../", replaces %root%. In
 * a build without the web page, the reply is only the content. */
void srv_page_document(srv_request *req, const char *name, const char *root, const char *content);

#endif
