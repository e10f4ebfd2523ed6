# The network of the study pacing-buffers as an ns-2 user writes it: n hosts on either side of one bottleneck, access lines of
# the bottleneck's rate, drop-tail. One JSON object on standard output. study.py makes the runs.
#
#   ns study.tcl -hosts 500 -buffer 111 -seconds 100 -warmup 20
#   ns study.tcl -hosts 500 -buffer 111 -transfers FILE
#
# Without -transfers every host has data without end. FILE has a line "host bytes gap" for each transfer, in order: bytes of
# payload, and seconds from the end of this transfer to the start of the next. Each transfer is a connection of its own: the
# agents are reset in between, which is ns-2's usual way, so that the next begins with a SYN, the initial window and no
# round-trip estimate. A transfer lasts from its SYN to the ACK of its last packet.

array set opt {
    hosts 500 rate 100Mb delay 90ms access 5ms access_rate same packet 1000 buffer 111 seconds 100 warmup 20
    spread 1 seed 1 agent TCP/Reno sink TCPSink window 1000 transfers "" classes "0 10 20 50 100 200 1e12" set ""
}
if {[llength $argv] % 2} { puts stderr "study.tcl: an option lacks its value"; exit 2 }
foreach {key value} $argv {
    set key [string range $key 1 end]
    if {![info exists opt($key)]} { puts stderr "study.tcl: unknown option -$key, there are: [lsort [array names opt]]"; exit 2 }
    set opt($key) $value
}
if {$opt(access_rate) == "same"} { set opt(access_rate) $opt(rate) }

ns-random $opt(seed)
set start [new RNG]
$start seed $opt(seed)
set ns [new Simulator]
# Shortest paths between 3000 nodes would take longer than the run.
$ns rtproto Manual

Agent/TCP set packetSize_ [expr $opt(packet) - 40]
Agent/TCP set window_ $opt(window)
foreach {name value} $opt(set) { Agent/TCP set $name $value }
# Only the bottleneck drops.
Queue set limit_ 1000000

set r1 [$ns node]
set r2 [$ns node]
$ns duplex-link $r1 $r2 $opt(rate) $opt(delay) DropTail
$ns queue-limit $r1 $r2 $opt(buffer)
[$r1 get-module Manual] add-route-to-adj-node -default $r2
[$r2 get-module Manual] add-route-to-adj-node -default $r1
set monitor [$ns monitor-queue $r1 $r2 ""]
set bits_per_second [[[$ns link $r1 $r2] link] set bandwidth_]

for {set i 0} {$i < $opt(hosts)} {incr i} {
    set s($i) [$ns node]
    set d($i) [$ns node]
    $ns duplex-link $s($i) $r1 $opt(access_rate) $opt(access) DropTail
    $ns duplex-link $r2 $d($i) $opt(access_rate) $opt(access) DropTail
    [$s($i) get-module Manual] add-route-to-adj-node -default $r1
    [$d($i) get-module Manual] add-route-to-adj-node -default $r2
    [$r1 get-module Manual] add-route-to-adj-node $s($i)
    [$r2 get-module Manual] add-route-to-adj-node $d($i)
    set tcp($i) [new Agent/$opt(agent)]
    set snk($i) [new Agent/$opt(sink)]
    $ns attach-agent $s($i) $tcp($i)
    $ns attach-agent $d($i) $snk($i)
    $ns connect $tcp($i) $snk($i)
    $tcp($i) set fid_ $i
    set at($i) [expr $opt(spread) > 0 ? [$start uniform 0 $opt(spread)] : 0]
    set host($tcp($i)) $i
}

# Counters of transfers that have ended; those of the agents start anew with each.
array set ended {nrexmit_ 0 ncwndcuts_ 0 nrexmitpack_ 0 ndatapack_ 0}
proc collect {i} {
    global tcp ended
    foreach name [array names ended] { incr ended($name) [$tcp($i) set $name] }
}
proc total {name} {
    global tcp ended opt
    set sum $ended($name)
    for {set i 0} {$i < $opt(hosts)} {incr i} { incr sum [$tcp($i) set $name] }
    return $sum
}

if {$opt(transfers) == ""} {
    for {set i 0} {$i < $opt(hosts)} {incr i} {
        set ftp($i) [new Application/FTP]
        $ftp($i) attach-agent $tcp($i)
        $ns at $at($i) "$ftp($i) start"
    }
} else {
    set file [open $opt(transfers)]
    while {[gets $file line] >= 0} {
        set i [lindex $line 0]
        if {$i < $opt(hosts)} { lappend todo($i) [lindex $line 1] [lindex $line 2] }
    }
    close $file
    # Drops of each host's packets, to be divided among its transfers.
    set flows [$ns makeflowmon Fid]
    $ns attach-fmon [$ns link $r1 $r2] $flows 0
    set classifier [$flows classifier]

    set bounds {}
    foreach kb $opt(classes) { lappend bounds [expr $kb * 1000.0] }
    for {set c 0} {$c < [llength $bounds] - 1} {incr c} {
        array set stat [list $c,n 0 $c,time 0.0 $c,sent 0 $c,resent 0 $c,dropped 0 $c,timeouts 0]
    }
    proc drops {i} {
        global classifier s d
        set flow [$classifier lookup auto [$s($i) node-addr] [$d($i) node-addr] $i]
        return [expr {$flow == "" ? 0 : [$flow set pdrops_]}]
    }
    proc begin_transfer {i} {
        global ns tcp snk todo began before bytes opt
        if {[llength $todo($i)] == 0} { puts stderr "study.tcl: host $i has no more transfers"; exit 1 }
        if {[info exists began($i)]} {
            $tcp($i) reset
            $snk($i) reset
        }
        set bytes($i) [lindex $todo($i) 0]
        set began($i) [$ns now]
        set before($i) [drops $i]
        $tcp($i) send $bytes($i)
    }
    Agent/TCP instproc done {} {
        global host
        end_transfer $host($self)
    }
    proc end_transfer {i} {
        global ns tcp todo began before bytes opt bounds stat
        collect $i
        if {$began($i) >= $opt(warmup)} {
            for {set c 0} {$bytes($i) >= [lindex $bounds [expr $c + 1]]} {incr c} {}
            incr stat($c,n)
            set stat($c,time) [expr $stat($c,time) + [$ns now] - $began($i)]
            incr stat($c,sent) [$tcp($i) set ndatapack_]
            incr stat($c,resent) [$tcp($i) set nrexmitpack_]
            incr stat($c,timeouts) [$tcp($i) set nrexmit_]
            set stat($c,dropped) [expr $stat($c,dropped) + [drops $i] - $before($i)]
        }
        set gap [lindex $todo($i) 1]
        set todo($i) [lrange $todo($i) 2 end]
        $ns at [expr [$ns now] + $gap] "begin_transfer $i"
    }
    for {set i 0} {$i < $opt(hosts)} {incr i} { $ns at $at($i) "begin_transfer $i" }
}

set mark(arrived) 0; set mark(dropped) 0; set mark(bytes) 0; set mark(waiting) 0
proc waiting {} {
    global monitor
    set integral [$monitor get-pkts-integrator]
    $integral newpoint [[Simulator instance] now] [$monitor set pkts_]
    return [$integral set sum_]
}
proc begin {} {
    global mark monitor ended
    foreach name [array names ended] { set mark($name) [total $name] }
    set mark(arrived) [$monitor set parrivals_]
    set mark(dropped) [$monitor set pdrops_]
    set mark(bytes) [$monitor set bdepartures_]
    set mark(waiting) [waiting]
}
proc finish {} {
    global opt mark monitor bits_per_second ended bounds stat
    set span [expr double($opt(seconds) - $opt(warmup))]
    set arrived [expr [$monitor set parrivals_] - $mark(arrived)]
    set dropped [expr [$monitor set pdrops_] - $mark(dropped)]
    set bytes [expr [$monitor set bdepartures_] - $mark(bytes)]
    set queue [expr ([waiting] - $mark(waiting)) / $span]
    foreach name [array names ended] { set since($name) [expr [total $name] - $mark($name)] }
    set out [list \
        "\"utilisation\":[format %.6f [expr $bytes * 8.0 / ($bits_per_second * $span)]]" \
        "\"loss\":[format %.8f [expr {$arrived > 0 ? double($dropped) / $arrived : 0}]]" \
        "\"arrived\":[format %.0f $arrived]" "\"dropped\":[format %.0f $dropped]" \
        "\"mean_queue_packets\":[format %.3f $queue]" \
        "\"timeouts\":$since(nrexmit_)" "\"cwnd_cuts\":$since(ncwndcuts_)" \
        "\"retransmitted\":$since(nrexmitpack_)" "\"sent\":$since(ndatapack_)"]
    if {$opt(transfers) != ""} {
        set all {}
        for {set c 0} {$c < [llength $bounds] - 1} {incr c} {
            set n $stat($c,n)
            if {$n == 0} continue
            set sent $stat($c,sent)
            lappend all "{\"from_kb\":[expr [lindex $bounds $c] / 1000],\"transfers\":$n,\"transfer_s\":[format %.5f\
                [expr $stat($c,time) / $n]],\"loss\":[format %.7f [expr double($stat($c,dropped)) / $sent]],\"timeouts\":$stat($c,timeouts)}"
        }
        lappend out "\"by_size\":\[[join $all ,]\]"
    }
    puts "{[join $out ,]}"
    exit 0
}
$ns at $opt(warmup) begin
$ns at $opt(seconds) finish
$ns run
