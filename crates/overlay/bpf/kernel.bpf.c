// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The path inside the kernel: frames between containers and to other hosts' containers.
 *
 * The programs are the daemon's route cache. A frame with a known route takes it at once. Every other frame goes to the
 * daemon as without these programs: a port's to its tap, a tunnel's to its socket. The daemon then stores the route for
 * the next one. All decisions are the daemon's, and stay in force when it is gone.
 *
 * Large TCP frames stay whole, and their checksums are left to compute. The programs write and remove a tunnel's
 * headers themselves, because the kernel's tunnel device costs more than the rest of the path (routing, netfilter, a
 * socket lookup, one more queue).
 *
 * layout.h: structures shared with the daemon; routes.h: route lookup; vxlan.h: tunnel headers.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"
#include "routes.h"
#include "vxlan.h"

/* Attach point of a program. */
enum hook {
	AT_VETH,   /* ingress of a container's end on this host */
	AT_NETKIT, /* egress of the end in the container: run by the sender */
	AT_UPLINK, /* ingress of a direct link's uplink */
};

/* A frame without a usable route: dropped, or the daemon's. At an uplink, also the host's. */
static __always_inline int without_route(struct __sk_buff *skb, enum hook hook, const struct ethernet *eth)
{
	__u32 device = skb->ifindex;
	struct port *port = bpf_map_lookup_elem(&overlay_ports, &device);

	if (!port)
		return TC_ACT_UNSPEC;
	if (hook == AT_UPLINK)
		return shared(skb, port);
	if (!eth)
		return drop(port->number, REASON_MALFORMED);
	if (port->bound && !is_from(&eth->addresses, port->mac))
		return drop(port->number, REASON_SPOOFED);
	if (is_group(&eth->addresses) && floods_too_much(port))
		return drop(port->number, REASON_LIMITED);
	return to_daemon(port);
}

/* The daemon has checked every route: none is for an address that the port may not use, nor from one link to another. */
static __always_inline int forward(struct __sk_buff *skb, enum hook hook)
{
	const struct ethernet *front = front_of(skb, ETH_HLEN);
	__u32 bytes = skb->len;
	struct ethernet eth;
	struct route *route;
	int done;

	if (!front)
		return without_route(skb, hook, NULL);
	eth = (struct ethernet){ .addresses = front->addresses, .protocol = front->protocol };
	if (is_group(&eth.addresses))
		return without_route(skb, hook, &eth);
	route = route_of(skb->ifindex, &eth.addresses);
	if (!route || (route->longest && (skb->gso_size ? skb->gso_size + 54 : bytes) > route->longest))
		return without_route(skb, hook, &eth);
	if (route->egress == route->ingress)
		return hook == AT_UPLINK ? TC_ACT_UNSPEC : drop(route->ingress, REASON_LOOP);
	if (route->action == ACTION_LOCAL) {
		count(route, bytes);
		/* bpf_redirect_peer takes only frames that have come in at an interface; at a netkit's egress none has. */
		return hook == AT_NETKIT ? bpf_redirect(route->device, 0) : bpf_redirect_peer(route->device, 0);
	}
	if (route->action == ACTION_DIRECT) {
		count(route, bytes);
		return bpf_redirect(route->device, 0);
	}
	if (hook == AT_UPLINK || route->action != ACTION_VXLAN || skb->vlan_present)
		return without_route(skb, hook, &eth);
	done = encapsulate(skb, route, &eth);
	if (done > 0)
		return without_route(skb, hook, &eth);
	if (done < 0)
		return drop(route->ingress, REASON_REFUSED);
	count(route, bytes);
	return bpf_redirect(route->device, 0);
}

SEC("tc")
int from_container(struct __sk_buff *skb)
{
	return forward(skb, AT_VETH);
}

SEC("tc")
int from_netkit(struct __sk_buff *skb)
{
	return forward(skb, AT_NETKIT);
}

/* From the uplink of a direct link, which the host may use too: only frames with a route to a container bypass its
 * stack. A separate program: one that writes tunnel headers has each frame made writable first. */
SEC("tc")
int from_direct(struct __sk_buff *skb)
{
	return forward(skb, AT_UPLINK);
}

/* From the daemon's tap of a port to the port itself. */
SEC("tc")
int from_daemon(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex;
	struct port *tap;

	tap = bpf_map_lookup_elem(&overlay_ports, &device);
	if (!tap)
		return TC_ACT_UNSPEC;
	return tap->into_container ? bpf_redirect_peer(tap->device, 0) : bpf_redirect(tap->device, 0);
}

/* A frame of a tunnel. Frames without an exact match go to the stack, and so to the daemon. */
static __always_inline int unwrap(struct __sk_buff *skb)
{
	__u32 bytes = skb->len - OUTER_BYTES;
	const struct tunnel *tunnel;
	const struct ethernet *own;
	struct ethernet inner;
	struct route *route;
	const void *front;
	bool congested;
	int done;

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->pkt_type || skb->vlan_present)
		return TC_ACT_UNSPEC;
	front = front_of(skb, OUTER_BYTES + ETH_HLEN);
	tunnel = front + ETH_HLEN;
	own = front + OUTER_BYTES;
	if (!front || tunnel->ip.protocol != IPPROTO_UDP || tunnel->ip.ihl != 5 ||
	    (tunnel->ip.frag_off & FRAGMENT) || tunnel->flags != VXLAN_FLAGS)
		return TC_ACT_UNSPEC;
	inner = (struct ethernet){ .addresses = own->addresses, .protocol = own->protocol };
	route = route_of(FROM_TUNNEL | bpf_ntohl(tunnel->vni) >> 8, &inner.addresses);
	if (!route || route->action != ACTION_LOCAL || route->remote != tunnel->ip.saddr ||
	    route->local != tunnel->ip.daddr || route->local_port != tunnel->udp.dest)
		return TC_ACT_UNSPEC;
	congested = (tunnel->ip.tos & 3) == 3;
	if (skb->gso_size && !is_one_packet(skb, inner.protocol))
		return TC_ACT_UNSPEC;
	done = decapsulate(skb, &inner);
	if (done < 0)
		return drop(route->ingress, REASON_REFUSED);
	/* RFC 6040: congestion marks of the outer header are passed on, or the packet is dropped. */
	if (congested && !done && !bpf_skb_ecn_set_ce(skb))
		return drop(route->ingress, REASON_MALFORMED);
	count(route, bytes);
	return done ? bpf_redirect(route->device, 0) : bpf_redirect_peer(route->device, 0);
}

/* From the uplink of tunnels. */
SEC("tc")
int from_tunnel(struct __sk_buff *skb)
{
	return unwrap(skb);
}

/* From an uplink of tunnels that is also a direct link's. */
SEC("tc")
int from_shared(struct __sk_buff *skb)
{
	int done = unwrap(skb);

	return done == TC_ACT_UNSPEC ? forward(skb, AT_UPLINK) : done;
}

char _license[] SEC("license") = "Dual BSD/GPL";
