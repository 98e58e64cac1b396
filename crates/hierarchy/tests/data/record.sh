#!/bin/sh
# Records this folder's files: what tc prints of queues of several kinds, as text (NAME.txt) and as JSON (NAME.json), commands between them.
#
#   quell lab exec home-link b -- bash record.sh >recorded; awk '/^@@@ /{f=$2; printf "" >f; next} {print >f}' recorded
#
# It makes and takes off devices: run it nowhere else. It needs a kernel with all these kinds, as the lab's, and iproute2 (6.1 was used).
places() { # DEVICE: the places of its filters, one a line
  echo
  tc qdisc show dev "$1" | awk '$2 == "ingress" {print "ingress"} $2 == "clsact" {print "ingress"; print "egress"}'
  [ -z "$also" ] || echo "$also"
}
outputs() { # OPTION DEVICE…: all that tc tells
  json=$1; shift
  tc -s -d $json qdisc show
  for d in "$@"; do
    echo "+ tc -s -d $json class show dev $d"; tc -s -d $json class show dev "$d"
    places "$d" | while read -r place; do
      echo "+ tc -s -d $json filter show dev $d $place"; tc -s -d $json filter show dev "$d" $place; echo
    done
  done
}
dump() { # NAME DEVICE…
  name=$1; shift
  echo "@@@ $name.txt"; outputs "" "$@"
  echo "@@@ $name.json"; outputs -j "$@"
}
fresh() { ip link del eth0 2>/dev/null; ip link del ifb0 2>/dev/null; ip link add eth0 type veth peer name eth1; ip link add ifb0 type ifb
 ip addr add 10.9.0.1/24 dev eth0; ip link set eth0 address 02:00:00:00:00:01; ip link set eth1 address 02:00:00:00:00:02; ip link set eth0 up; ip link set eth1 up; ip link set ifb0 up; ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0; ip neigh add 10.9.0.7 lladdr 02:00:00:00:00:02 dev eth0; }
load() { for i in 2 7; do ping -q -f -c 40 -s 1000 -W 1 -w 2 10.9.0.$i >/dev/null 2>&1; done; }
ip link set lo up

fresh; tc qdisc replace dev eth0 root fq_codel; load; dump fq-codel eth0

fresh
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 2300kbit ceil 2300kbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 500kbit ceil 2300kbit prio 0
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 1mbit ceil 2300kbit prio 1 quantum 3000
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 800kbit ceil 2300kbit prio 2
tc class add dev eth0 parent 1:1 classid 1:40 htb rate 8kbit prio 7
for c in 10 20 30; do tc qdisc add dev eth0 parent 1:$c handle $c: fq_codel limit 1000; done
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.9.0.7/32 match ip protocol 1 0xff flowid 1:20
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 22 0xffff match ip protocol 6 0xff flowid 1:10
tc filter add dev eth0 parent 1: protocol ipv6 prio 2 u32 match ip6 dst 2001:db8::/32 flowid 1:20
tc filter add dev eth0 parent 1: protocol ipv6 prio 2 u32 match ip6 dport 5060 0xffff flowid 1:99
load; dump htb-u32 eth0

fresh
tc qdisc add dev eth0 root handle 1: prio
tc qdisc add dev eth0 parent 1:1 handle 10: pfifo limit 100
tc qdisc add dev eth0 parent 1:2 handle 20: sfq perturb 10
tc qdisc add dev eth0 parent 1:3 handle 30: tbf rate 1mbit burst 5k latency 50ms
tc filter add dev eth0 parent 1: protocol all prio 5 handle 6/0xff fw classid 1:1
tc filter add dev eth0 parent 1: protocol all prio 9 handle 7 fw classid 1:3
load; dump prio-fw eth0

fresh
tc qdisc add dev eth0 root handle 1: hfsc default 20
tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 5mbit ul rate 5mbit
tc class add dev eth0 parent 1:1 classid 1:10 hfsc rt m1 2mbit d 10ms m2 500kbit ls rate 1mbit
tc class add dev eth0 parent 1:1 classid 1:20 hfsc ls rate 4mbit ul rate 5mbit
tc qdisc add dev eth0 parent 1:20 handle 20: codel
load; dump hfsc eth0

fresh
tc qdisc add dev eth0 root handle 1: drr
tc class add dev eth0 parent 1: classid 1:1 drr
tc class add dev eth0 parent 1: classid 1:2 drr quantum 3000
tc filter add dev eth0 parent 1: protocol ip prio 1 handle 1 flow hash keys dst divisor 2 perturb 300 baseclass 1:1
tc filter add dev eth0 parent 1: protocol ipv6 prio 2 handle 1 flow map key mark and 0xff baseclass 1:1
load; dump drr-flow eth0

fresh
tc qdisc add dev eth0 root handle 1: cake bandwidth 10mbit diffserv4 nat pppoe-ptm dual-srchost ack-filter
load; dump cake eth0

fresh
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: protocol all prio 10 matchall action mirred egress redirect dev ifb0
tc qdisc add dev ifb0 root handle 1: htb default 1
tc class add dev ifb0 parent 1: classid 1:1 htb rate 18mbit
tc qdisc add dev ifb0 parent 1:1 handle 10: fq_codel
tc qdisc replace dev eth0 root handle 2: tbf rate 2mbit burst 10k latency 20ms
load; dump ingress-ifb eth0 ifb0

fresh
tc qdisc add dev eth0 clsact
tc qdisc replace dev eth0 root handle 1: htb
tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit
tc class add dev eth0 parent 1: classid 1:2 htb rate 5mbit
tc filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto tcp dst_port 443 src_ip 10.0.0.0/8 classid 1:1
tc filter add dev eth0 parent 1: protocol ipv6 prio 2 flower ip_proto udp ip_tos 0xb8/0xfc classid 1:2
tc filter add dev eth0 parent 1: protocol ip prio 3 bpf bytecode '1,6 0 0 4294967295,' flowid 1:2
tc filter add dev eth0 ingress protocol ip prio 1 u32 match ip src 10.9.0.0/24 action police rate 1mbit burst 10k conform-exceed drop/ok
tc filter add dev eth0 ingress protocol all prio 2 u32 match u32 0 0 action connmark action mirred egress redirect dev ifb0
tc filter add dev eth0 egress protocol ip prio 1 flower dst_ip 10.9.0.7 action skbedit mark 7 priority 1:2
tc filter add dev eth0 egress protocol ip prio 2 flower dst_mac 02:00:00:00:00:02 action drop
tc filter add dev eth0 egress protocol ip prio 3 basic match 'cmp(u8 at 8 layer 1 gt 64)' action ok
load; dump clsact-flower-bpf eth0

fresh
tc qdisc add dev eth0 root handle 1: netem delay 20ms 3ms loss 1% rate 10mbit limit 500
tc qdisc add dev eth0 parent 1:1 handle 2: red limit 200000 min 15000 max 45000 avpkt 1000 burst 25 ecn bandwidth 10mbit probability 0.1
load; dump netem-red eth0

fresh
tc qdisc add dev eth0 root handle 1: ets bands 4 strict 2 quanta 3000 1500
tc qdisc add dev eth0 parent 1:1 handle 11: fq
tc qdisc add dev eth0 parent 1:2 handle 12: pie
tc qdisc add dev eth0 parent 1:3 handle 13: fq_pie
tc qdisc add dev eth0 parent 1:4 handle 14: fq_codel
tc filter add dev eth0 parent 14: protocol ip prio 1 u32 match ip dst 10.9.0.2/32 flowid 14:5
load; also='parent 14:'; dump ets-fq eth0; also=

fresh
tc qdisc add dev eth0 root handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit
tc filter add dev eth0 parent 1: protocol ip prio 3 handle 2: u32 divisor 16
tc filter add dev eth0 parent 1: protocol ip prio 3 u32 ht 2:1: match ip dst 10.9.0.1/32 flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 3 u32 ht 2:2: match ip dst 10.9.0.2/32 flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 3 u32 ht 800: match ip dst 10.9.0.0/24 hashkey mask 0x0000000f at 16 link 2:
load; dump u32-hash eth0

fresh; ip link del eth0; ip link add eth0 numtxqueues 4 numrxqueues 4 type veth peer name eth1; ip link set eth0 up; ip link set eth1 up; tc qdisc replace dev eth0 root handle 1: mq; for q in 1 2 3 4; do tc qdisc add dev eth0 parent 1:$q fq_codel; done; dump mq eth0
