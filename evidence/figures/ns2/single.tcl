# One connection over one duplex link; everything the sender does, as CSV on standard output. traces.py makes the files.
#
#   ns single.tcl -rate 10Mb -delay 20ms -buffer 20 -seconds 5
#
# -losses is a list of transmissions, counted from 1 at the SYN, that the line loses after they left the queue.
# -writes is a list of {time packets}; without it the sender always has data. -ssthresh 0 leaves ns-2's (window_).

array set opt {
    rate 10Mb delay 20ms packet 1500 buffer 20 seconds 5 seed 1 agent TCP/Reno window 1000000 maxcwnd 0 ssthresh 0
    losses {} writes {}
}
foreach {key value} $argv {
    set key [string range $key 1 end]
    if {![info exists opt($key)]} { puts stderr "single.tcl: unknown option -$key"; exit 2 }
    set opt($key) $value
}

ns-random $opt(seed)
set ns [new Simulator]
Agent/TCP set packetSize_ [expr $opt(packet) - 40]
Agent/TCP set window_ $opt(window)
Agent/TCP set maxcwnd_ $opt(maxcwnd)

set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b $opt(rate) $opt(delay) DropTail
$ns queue-limit $a $b $opt(buffer)
if {[llength $opt(losses)]} {
    # ErrorModel/List counts from 0.
    set from_zero {}
    foreach n $opt(losses) { lappend from_zero [expr $n - 1] }
    set loss [new ErrorModel/List]
    $loss unit pkt
    $loss droplist $from_zero
    $loss drop-target [new Agent/Null]
    $ns link-lossmodel $loss $a $b
}

set tcp [new Agent/$opt(agent)]
set sink [new Agent/TCPSink[expr {$opt(agent) == "TCP/Sack1" ? "/Sack1" : ""}]]
$ns attach-agent $a $tcp
$ns attach-agent $b $sink
$ns connect $tcp $sink

# Packets and state changes go to one channel, so that their order is kept.
set out stdout
$ns trace-queue $a $b $out
$ns trace-queue $b $a $out
foreach v {cwnd_ ssthresh_ dupacks_ rtt_ srtt_ rttvar_ backoff_} { $tcp trace $v }
$tcp attach $out

# "run" resets the agents, so a threshold set before is lost.
if {$opt(ssthresh)} { $ns at 0 "$tcp set ssthresh_ $opt(ssthresh)" }
set ftp [new Application/FTP]
$ftp attach-agent $tcp
if {[llength $opt(writes)]} {
    foreach w $opt(writes) { $ns at [lindex $w 0] "$tcp advanceby [lindex $w 1]" }
} else {
    $ns at 0 "$ftp start"
}
$ns at $opt(seconds) "flush $out; exit 0"
$ns run
