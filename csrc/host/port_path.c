/* port_path.c - which interface of this machine everything goes through. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Every interface of this machine, as far as pdi_port_interfaces tells them. */
struct all {
    uint32_t count;
    struct pdi_port_interface list[PDI_PORT_INTERFACES_MAX];
};

/* What one entry says. OK; AGAIN if the interface has vanished meanwhile; else -errno. */
static int put_row(struct pdi_port_interface *row, const struct ifaddrs *entry)
{
    uint32_t index = if_nametoindex(entry->ifa_name);
    if (index == 0) {
        return errno == ENODEV || errno == ENXIO ? PYDDSI_AGAIN : -errno;
    }
    *row = (struct pdi_port_interface){
        .index = index,
        .up = (entry->ifa_flags & IFF_UP) != 0,
        .running = (entry->ifa_flags & IFF_RUNNING) != 0,
        .multicast = (entry->ifa_flags & IFF_MULTICAST) != 0,
        .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
    };
    snprintf(row->name, sizeof row->name, "%s", entry->ifa_name);
    if (entry->ifa_addr != NULL) {
        union pdi_port_address address = {.any.sa_family = entry->ifa_addr->sa_family};
        if (address.any.sa_family == AF_INET) {
            memcpy(&address.v4, entry->ifa_addr, sizeof address.v4);
        } else if (address.any.sa_family == AF_INET6) {
            memcpy(&address.v6, entry->ifa_addr, sizeof address.v6);
        }
        pdi_port_address_get(&address, &row->address);
        row->address.port = 0;
    }
    return PYDDSI_OK;
}

/* Whether an interface has an IP address anywhere in the list. */
static bool addressed(const struct ifaddrs *first, const char *name)
{
    for (const struct ifaddrs *entry = first; entry != NULL; entry = entry->ifa_next) {
        if (entry->ifa_addr != NULL && strcmp(entry->ifa_name, name) == 0 &&
            (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6)) {
            return true;
        }
    }
    return false;
}

int pdi_port_interfaces(struct pdi_port_interface *list, uint32_t room, uint32_t *count)
{
    struct ifaddrs *first = NULL;
    int status = PYDDSI_OK;
    *count = 0;
    if (getifaddrs(&first) < 0) {
        return -errno;
    }
    for (const struct ifaddrs *entry = first; entry != NULL && *count < room && status >= 0;
         entry = entry->ifa_next) {
        int family = entry->ifa_addr == NULL ? AF_UNSPEC : entry->ifa_addr->sa_family;
        if (family == AF_INET || family == AF_INET6 || !addressed(first, entry->ifa_name)) {
            status = put_row(&list[*count], entry);
            if (status == PYDDSI_OK) {
                (*count)++;
            }
        }
    }
    freeifaddrs(first);
    return status < 0 ? status : PYDDSI_OK;
}

uint32_t pdi_port_carries(const struct pdi_port *port, const pyddsi_endpoint *to)
{
    union pdi_port_address address;
    bool four = to->kind == PDI_PORT_IPV4;
    int headers = four ? 20 + 8 : 40 + 8;
    int mtu = 0;
    socklen_t length = sizeof mtu;
    if (to->kind != port->family) {
        return 0;
    }
    socklen_t size = pdi_port_address_put(&address, to, pdi_atomic32_load_relaxed(&port->scope));
    int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return 0;
    }
    bool known = connect(fd, &address.any, size) == 0 &&
                 (four ? getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length)
                       : getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &length)) == 0;
    close(fd);
    return known && mtu > headers ? (uint32_t)(mtu - headers) : 0;
}

static const char *family_name(uint8_t family)
{
    return family == PDI_PORT_IPV4 ? "IPv4" : "IPv6";
}

static void take(struct pdi_port_path *path, const struct pdi_port_interface *row)
{
    path->address = row->address;
    path->index = row->index;
}

/* Says that there is no such interface, and which there are. */
static int refuse_name(const struct all *all, const struct pdi_port_options *options,
                       const struct pdi_port_text *text)
{
    char names[512] = "";
    char name[PDI_PORT_ADDRESS_ROOM];
    size_t length = 0;
    for (uint32_t i = 0; i < all->count && length < sizeof names; i++) {
        const struct pdi_port_interface *row = &all->list[i];
        if (row->up && row->address.kind == options->family) {
            length += (size_t)snprintf(names + length, sizeof names - length, "%s %s %s",
                                       length == 0 ? ":" : ",", row->name,
                                       pdi_port_address_print(&row->address, name));
        }
    }
    return pdi_port_text_fail(text, ENODEV,
                              "no interface or address \"%s\" on this machine; choose one of "
                              "those that are up with %s%s",
                              options->interface, family_name(options->family), names);
}

/* The interface that the options name, by its name or by its address. */
static int choose(struct pdi_port_path *path, const struct all *all,
                  const struct pdi_port_options *options, const struct pdi_port_text *text)
{
    const char *wanted = options->interface;
    pyddsi_endpoint address = {0};
    if (inet_pton(AF_INET, wanted, address.ip) == 1) {
        address.kind = PDI_PORT_IPV4;
    } else if (inet_pton(AF_INET6, wanted, address.ip) == 1) {
        address.kind = PDI_PORT_IPV6;
    }
    if (address.kind != 0 && address.kind != options->family) {
        return pdi_port_text_fail(text, EAFNOSUPPORT, "the address %s is %s, but %s is asked for",
                                  wanted, family_name(address.kind), family_name(options->family));
    }
    const struct pdi_port_interface *found = NULL;
    const struct pdi_port_interface *named = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct pdi_port_interface *row = &all->list[i];
        bool same = address.kind != 0 ? pdi_port_address_same(&row->address, &address)
                                      : strcmp(row->name, wanted) == 0;
        named = same ? row : named;
        /* of several addresses the first; but one that is good beyond its link goes before */
        if (same && row->address.kind == options->family &&
            (found == NULL ||
             (pdi_port_address_link(&found->address) && !pdi_port_address_link(&row->address)))) {
            found = row;
        }
    }
    if (named == NULL) {
        return refuse_name(all, options, text);
    }
    if (!named->up) {
        return pdi_port_text_fail(text, ENETDOWN,
                                  "the interface %s is down: ip link set %s up, or choose another",
                                  named->name, named->name);
    }
    if (found == NULL) {
        return pdi_port_text_fail(text, EADDRNOTAVAIL,
                                  "the interface %s has no %s address: give it one, or choose "
                                  "another",
                                  wanted, family_name(options->family));
    }
    take(path, found);
    path->chosen = true;
    return PYDDSI_OK;
}

/* Steers and binds a socket as the unicast one will be, connects it to the group, which sends
 * nothing, and learns its address. Answers as connect. */
static int probe_with(int fd, const struct pdi_port_path *path, const pyddsi_endpoint *group,
                      union pdi_port_address *address)
{
    if (path->index != 0 && pdi_port_socket_steer(fd, path) < 0) {
        return -1;
    }
    socklen_t size = pdi_port_address_put(address, &path->address, path->index);
    if (path->chosen && bind(fd, &address->any, size) < 0) {
        return -1;
    }
    size = pdi_port_address_put(address, group, path->index);
    if (connect(fd, &address->any, size) < 0) {
        return -1;
    }
    return getsockname(fd, &address->any, &size);
}

int pdi_port_path_probe(const struct pdi_port_path *path, const pyddsi_endpoint *group,
                        pyddsi_endpoint *own, int *refused, const struct pdi_port_text *text)
{
    union pdi_port_address address;
    int fd = pdi_port_socket_make(group->kind, text);
    if (fd < 0) {
        return fd;
    }
    *refused = probe_with(fd, path, group, &address) < 0 ? errno : 0;
    close(fd);
    if (*refused == 0) {
        pdi_port_address_get(&address, own);
        own->port = 0;
    }
    return PYDDSI_OK;
}

/* The first interface that is up, with multicast, and that packets to the group can be sent through, or
 * the first loopback that is up, untried, so that what it lacks can be said. Null if there is none. */
static const struct pdi_port_interface *first_fit(const struct all *all,
                                                  const pyddsi_endpoint *group, bool loopback,
                                                  const struct pdi_port_text *text)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct pdi_port_interface *row = &all->list[i];
        struct pdi_port_path path = {.address = row->address, .index = row->index};
        pyddsi_endpoint own;
        int refused = 0;
        if (row->up && row->address.kind == group->kind && row->loopback == loopback &&
            (loopback || (row->running && row->multicast &&
                          pdi_port_path_probe(&path, group, &own, &refused, text) == PYDDSI_OK &&
                          refused == 0))) {
            return row;
        }
    }
    return NULL;
}

/* The interface that the system routes the group through; without a route the first that can send there, and the
 * loopback if there is none. */
static int route(struct pdi_port_path *path, const struct all *all, const pyddsi_endpoint *group,
                 const struct pdi_port_text *text)
{
    pyddsi_endpoint own = {0};
    const struct pdi_port_interface *found = NULL;
    int refused = 0;
    int status = pdi_port_path_probe(path, group, &own, &refused, text);
    if (status < 0) {
        return status;
    }
    if (refused == 0) {
        for (uint32_t i = 0; i < all->count && found == NULL; i++) {
            found = pdi_port_address_same(&all->list[i].address, &own) ? &all->list[i] : NULL;
        }
    } else { /* no route says which: a switch without a router, or a group of one link */
        found = first_fit(all, group, false, text);
    }
    if (found == NULL) {
        found = first_fit(all, group, true, text);
    }
    if (found != NULL) {
        take(path, found);
    }
    return PYDDSI_OK;
}

/* Says that a group cannot be reached. */
static int refuse_group(const struct pdi_port_path *path, const pyddsi_endpoint *group, int code,
                        const struct pdi_port_text *text)
{
    char name[PDI_PORT_ADDRESS_ROOM];
    char interface[IF_NAMESIZE] = "";
    pdi_port_address_print(group, name);
    if (path->index == 0 || if_indextoname(path->index, interface) == NULL) {
        return pdi_port_text_fail(text, code,
                                  "no multicast route to %s, and no interface is up: connect a "
                                  "network, or as root: ip link set lo up",
                                  name);
    }
    if (group->kind == PDI_PORT_IPV4 || code != ENETUNREACH) {
        return pdi_port_text_fail(text, code,
                                  "cannot send to %s through %s: %s; choose another "
                                  "interface",
                                  name, interface, strerror(code));
    }
    /* on lo it has to be a local one: the system turns others into a refusal */
    bool lo = strcmp(interface, "lo") == 0;
    return pdi_port_text_fail(text, code,
                              "no multicast route to %s through %s: choose another interface, or "
                              "as root: ip -6 route add %s ff00::/8 dev %s%s",
                              name, interface, lo ? "local" : "multicast", interface,
                              lo ? "" : " table local");
}

int pdi_port_path_find(struct pdi_port_path *path, const struct pdi_port_options *options,
                       pyddsi_endpoint *own, const struct pdi_port_text *text)
{
    /* if nothing is joined, others reach us where a packet to this group would come from */
    static const pyddsi_endpoint usual[2] = {
        {.kind = PDI_PORT_IPV4, .ip = {239, 255, 0, 1}, .port = 7447},
        {.kind = PDI_PORT_IPV6, .ip = {0xff, 0x05, [15] = 1}, .port = 7447},
    };
    struct all all = {0};
    *path = (struct pdi_port_path){.address.kind = options->family};
    int status = pdi_port_interfaces(all.list, PDI_PORT_INTERFACES_MAX, &all.count);
    if (status < 0) {
        return pdi_port_text_refused(text, -status, "list the interfaces of this machine");
    }
    const pyddsi_endpoint *first =
        options->groups > 0 ? &options->group[0] : &usual[options->family == PDI_PORT_IPV6];
    status = options->interface != NULL && options->interface[0] != 0
                 ? choose(path, &all, options, text)
                 : route(path, &all, first, text);
    if (status < 0) {
        return status;
    }
    for (uint32_t i = 0; i < options->groups; i++) {
        int refused = 0;
        status = pdi_port_path_probe(path, &options->group[i], &own[i], &refused, text);
        if (status < 0) {
            return status;
        }
        if (refused != 0) {
            return refuse_group(path, &options->group[i], refused, text);
        }
    }
    return PYDDSI_OK;
}
