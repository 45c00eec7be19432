/* Which requests may change what other clients rely on. See access.h for the contract. */
#include "rdzv/admin/access.h"

#include "rdzv/http/message.h"

bool admin_may_change(const struct http_request *r)
{
    if (!peer_is_loopback(&r->conn->peer))
        reply_message(r, 403,
                      "This is only for the machine that rdzvd runs on: send this request "
                      "there, to 127.0.0.1 or [::1]",
                      HTTP_ETCD_NONE);
    else if (r->head->origin.len != 0)
        /* Any page that a browser on this machine shows could send it. */
        reply_message(r, 403, "This is not for a web page: send no Origin header", HTTP_ETCD_NONE);
    else
        return true;
    return false;
}
