/* Nodes as text. See node_text.h for the contract. */
#include "rdzv/rendezvous/node_text.h"

#include <stdio.h>
#include <string.h>

const char *node_text(const struct torch_node *node, char text[NODE_TEXT_MAX])
{
    snprintf(text, NODE_TEXT_MAX, "%.*s/%lld/%lld",
             (int)(node->addr.len < 255 ? node->addr.len : 255), (const char *)node->addr.ptr,
             (long long)node->pid, (long long)node->local_id);
    return text;
}

const char *node_words(const char *node, char words[NODE_TEXT_MAX])
{
    const char *last = strrchr(node, '/');
    const char *pid = last == NULL ? NULL : memrchr(node, '/', (size_t)(last - node));

    if (pid == NULL)
        snprintf(words, NODE_TEXT_MAX, "%.300s", node);
    else
        snprintf(words, NODE_TEXT_MAX, "%.*s (pid %.*s)", (int)(pid - node), node,
                 (int)(last - pid - 1), pid + 1);
    return words;
}
