# Dumbbell of n FTP senders over one bottleneck, as an ns-2 user writes it: one node per host, duplex links, DropTail,
# one-way TCP agents. No trace files. One JSON object on standard output.
#
#   ns dumbbell.tcl -flows 100 -rate 100Mb -delay 90ms -access 5ms -packet 1500 -buffer 1666 -seconds 60

proc usage {why} {
    puts stderr "dumbbell.tcl: $why
options, with their defaults:
  -flows 100         TCP connections, each between two hosts of its own
  -rate 100Mb        bottleneck, bit/s (ns-2 units: 10Mb, 1.5Mb, 1e8)
  -delay 90ms        one way, bottleneck
  -access 5ms        one way, each access link
  -access_rate same  access links; same: as the bottleneck
  -packet 1500       bytes of a data packet, headers included
  -buffer 1666       DropTail limit_, packets
  -seconds 60        length of the run
  -warmup 0          figures are over \[warmup, seconds\]
  -spread 5          starts are uniform over \[0, spread\] seconds
  -seed 1            ns-2 default generator
  -agent TCP/Reno    Agent/... : TCP/Reno, TCP/Newreno, TCP/Sack1
  -window 1000000    window_, packets
  -sample 0.1        distance of the RTT and cwnd samples, seconds; 0: none
  -per_flow 1        goodput of each flow in the output"
    exit 2
}

array set opt {
    flows 100 rate 100Mb delay 90ms access 5ms access_rate same packet 1500 buffer 1666 seconds 60 warmup 0 spread 5
    seed 1 agent TCP/Reno window 1000000 sample 0.1 per_flow 1
}
if {[llength $argv] % 2} { usage "an option lacks its value" }
foreach {key value} $argv {
    set key [string range $key 1 end]
    if {![info exists opt($key)]} { usage "unknown option -$key" }
    set opt($key) $value
}
if {$opt(access_rate) == "same"} { set opt(access_rate) $opt(rate) }
if {$opt(warmup) >= $opt(seconds)} { usage "-warmup must be below -seconds" }
switch $opt(agent) {
    TCP/Reno - TCP/Newreno { set sink TCPSink }
    TCP/Sack1 { set sink TCPSink/Sack1 }
    default { usage "-agent must be TCP/Reno, TCP/Newreno or TCP/Sack1" }
}

ns-random $opt(seed)
set start [new RNG]
$start seed $opt(seed)
set ns [new Simulator]

Agent/TCP set packetSize_ [expr $opt(packet) - 40]
Agent/TCP set window_ $opt(window)
# Far more than an access link ever queues: only the bottleneck drops.
Queue set limit_ 1000000

set r1 [$ns node]
set r2 [$ns node]
$ns duplex-link $r1 $r2 $opt(rate) $opt(delay) DropTail
$ns queue-limit $r1 $r2 $opt(buffer)

for {set i 0} {$i < $opt(flows)} {incr i} {
    set s($i) [$ns node]
    set d($i) [$ns node]
    $ns duplex-link $s($i) $r1 $opt(access_rate) $opt(access) DropTail
    $ns duplex-link $r2 $d($i) $opt(access_rate) $opt(access) DropTail
    set tcp($i) [new Agent/$opt(agent)]
    set snk($i) [new Agent/$sink]
    $ns attach-agent $s($i) $tcp($i)
    $ns attach-agent $d($i) $snk($i)
    $ns connect $tcp($i) $snk($i)
    set ftp($i) [new Application/FTP]
    $ftp($i) attach-agent $tcp($i)
    set at [expr $opt(spread) > 0 ? [$start uniform 0 $opt(spread)] : 0]
    $ns at $at "$ftp($i) start"
}

# Arrivals, departures, drops and the time integral of the bytes waiting.
set monitor [$ns monitor-queue $r1 $r2 ""]
set bits_per_second [[[$ns link $r1 $r2] link] set bandwidth_]

set mark(arrived) 0; set mark(dropped) 0; set mark(bytes) 0; set mark(waiting) 0
for {set i 0} {$i < $opt(flows)} {incr i} { set acked($i) 0 }
set cwnd_sum 0.0; set rtt_sum 0.0; set rtt_n 0; set samples 0; set queue_max 0

proc waiting {} {
    global monitor
    set integral [$monitor get-pkts-integrator]
    $integral newpoint [[Simulator instance] now] [$monitor set pkts_]
    return [$integral set sum_]
}

proc begin {} {
    global mark monitor acked tcp opt
    set mark(arrived) [$monitor set parrivals_]
    set mark(dropped) [$monitor set pdrops_]
    set mark(bytes) [$monitor set bdepartures_]
    set mark(waiting) [waiting]
    for {set i 0} {$i < $opt(flows)} {incr i} { set acked($i) [$tcp($i) set ack_] }
}

# rtt_ is the last measured round trip in ticks, without bias: it counts the ticks of a clock with a random phase. srtt_
# would be up to 7/8 tick too long, since its update truncates.
proc sample {} {
    global ns tcp opt cwnd_sum rtt_sum rtt_n samples monitor queue_max
    for {set i 0} {$i < $opt(flows)} {incr i} {
        set cwnd_sum [expr $cwnd_sum + [$tcp($i) set cwnd_]]
        set rtt [$tcp($i) set rtt_]
        if {$rtt > 0} {
            set rtt_sum [expr $rtt_sum + $rtt]
            incr rtt_n
        }
    }
    incr samples $opt(flows)
    if {[$monitor set pkts_] > $queue_max} { set queue_max [$monitor set pkts_] }
    $ns at [expr [$ns now] + $opt(sample)] sample
}

proc mean {as sum n} {
    if {$n == 0} { return null }
    return [format $as [expr double($sum) / $n]]
}

proc finish {} {
    global opt mark monitor bits_per_second tcp acked cwnd_sum rtt_sum rtt_n samples queue_max
    set span [expr double($opt(seconds) - $opt(warmup))]
    set arrived [expr [$monitor set parrivals_] - $mark(arrived)]
    set dropped [expr [$monitor set pdrops_] - $mark(dropped)]
    set bytes [expr [$monitor set bdepartures_] - $mark(bytes)]
    set queue [expr ([waiting] - $mark(waiting)) / $span]
    set timeouts 0; set cuts 0; set resent 0; set goodput {}
    for {set i 0} {$i < $opt(flows)} {incr i} {
        incr timeouts [$tcp($i) set nrexmit_]
        incr cuts [$tcp($i) set ncwndcuts_]
        incr resent [$tcp($i) set nrexmitpack_]
        set n [expr [$tcp($i) set ack_] - $acked($i)]
        lappend goodput [format %.0f [expr $n * ($opt(packet) - 40) * 8 / $span]]
    }
    set tick [Agent/TCP set tcpTick_]
    set out [list \
        "\"flows\":$opt(flows)" \
        "\"utilisation\":[format %.6f [expr $bytes * 8.0 / ($bits_per_second * $span)]]" \
        "\"loss\":[format %.8f [expr {$arrived > 0 ? double($dropped) / $arrived : 0}]]" \
        "\"arrived\":[format %.0f $arrived]" "\"dropped\":[format %.0f $dropped]" \
        "\"mean_queue_packets\":[format %.3f $queue]" "\"max_queue_packets_sampled\":$queue_max" \
        "\"mean_rtt_seconds\":[mean %.5f [expr $rtt_sum * $tick] $rtt_n]" \
        "\"mean_cwnd_packets\":[mean %.4f $cwnd_sum $samples]" \
        "\"timeouts\":$timeouts" "\"cwnd_cuts\":$cuts" "\"retransmitted\":$resent"]
    if {$opt(per_flow)} { lappend out "\"goodput_bit_per_second\":\[[join $goodput ,]\]" }
    puts "{[join $out ,]}"
    exit 0
}

$ns at $opt(warmup) begin
if {$opt(sample) > 0} { $ns at $opt(warmup) sample }
$ns at $opt(seconds) finish
$ns run
