/* port_text.c - what failed, and what to do about it. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const char *pdi_port_address_print(const pyddsi_endpoint *endpoint, char out[PDI_PORT_ADDRESS_ROOM])
{
    int family = endpoint->kind == PDI_PORT_IPV4 ? AF_INET : AF_INET6;
    if (inet_ntop(family, endpoint->ip, out, PDI_PORT_ADDRESS_ROOM) == NULL) {
        out[0] = 0;
    }
    return out;
}

int pdi_port_text_fail(const struct pdi_port_text *text, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text->text, text->room, format, arguments);
    va_end(arguments);
    return -code;
}

/* What can be done about an errno; empty if nobody knows. */
static const char *advice(int code)
{
    switch (code) {
    case EMFILE:
        return "; close what is not needed, or raise the limit of this process (ulimit -n)";
    case ENFILE:
        return "; the limit of the whole system (sysctl fs.file-max) is reached";
    case ENOMEM:
    case ENOBUFS:
        return "; free some memory";
    case EAFNOSUPPORT:
        return "; this system does not speak it: use the other family";
    case EACCES:
    case EPERM:
        return "; ask who runs this system for the permission";
    default:
        return "";
    }
}

int pdi_port_text_refused(const struct pdi_port_text *text, int code, const char *what)
{
    return pdi_port_text_fail(text, code, "cannot %s: %s%s", what, strerror(code), advice(code));
}
