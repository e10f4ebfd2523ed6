// Stories of a minute, for those who know ping but not cwnd. Each is a scene, three steps, one thing to try, and the finding behind it.

import call from "../stories/call.toml";
import coop from "../stories/coop.toml";
import efr from "../stories/efr.toml";
import handover from "../stories/handover.toml";
import pacing from "../stories/pacing.toml";
import retryOut from "../stories/retry-out.toml";

export interface Story {
  id: string;
  /** Of the button. */
  short: string;
  title: string;
  scene: string;
  toml: string;
  /** What the second run changes, and how that is called. */
  set: string[];
  change: string;
  /** The group of flows that plots show; "": all. */
  watch: string;
  steps: { text: string; from_s: number; speed: string }[];
  attempt: string;
  /** Study and finding, as published. */
  finding: string;
}

export const STORIES: Story[] = [
  {
    id: "call",
    short: "Why is my call bad when someone uploads?",
    title: "Why is my call bad when someone uploads?",
    scene:
      "A laptop two rooms from its access point is in a call. After two seconds it also starts to send a backup. The first run has a laptop of 2014, the second one of today. Everything else is the same.",
    toml: call,
    set: ["profiles.user.base=linux-6"],
    change: "a laptop of today, with short and fair queues",
    watch: "upload",
    steps: [
      { text: "Before the backup, each small packet of the call goes out at once. The queue bar is empty, and a ping takes some 20 ms.", from_s: 1.9, speed: "0.01" },
      { text: "The backup starts. It hands the laptop far more packets than the air can carry, and they pile up in the queue. The call's packets stand in the same line.", from_s: 2, speed: "0.1" },
      { text: "Soon the old laptop's queue holds hundreds of packets, so each word waits for all of them. The new one keeps its queue short, and lets the call's few packets go first.", from_s: 6, speed: "1" },
    ],
    attempt: "raise the signal of “wlan” above noise to 25 dB. The air becomes six times as fast. The old laptop's call gets better, but not good.",
    finding: "remedies/edge-today",
  },
  {
    id: "retry-out",
    short: "Can the access point alone cure it?",
    title: "Can the access point alone cure it?",
    scene:
      "A far station uploads, and many of its frames arrive damaged. Radios send such frames again until they arrive, so nothing is lost. In the second run the access point gives up early on frames that keep arriving damaged.",
    toml: retryOut,
    set: ["wlans[0].ap_radio.reorder_buffer.retry_out=stepped"],
    change: "the access point gives up early",
    watch: "upload",
    steps: [
      { text: "One transmission carries many frames. Red ones arrived damaged, and are sent again in the next.", from_s: 1, speed: "0.01" },
      { text: "TCP slows down only when something is lost. In the first run nothing is, so it keeps more and more packets on their way. The queue grows, and the ping with it.", from_s: 0, speed: "1" },
      { text: "In the second run the access point lets a few damaged frames go. TCP sees the gap and slows down, so the queue stays short. Press “Next drop” to see such a frame. It costs a tenth of the goodput.", from_s: 3, speed: "0.1" },
    ],
    attempt: "set the system of “sta” to linux-3.13, which limits its own queue. How much is left for the access point to do?",
    finding: "remedies/edge-retry-out",
  },
  {
    id: "handover",
    short: "Why does my camera freeze when I walk?",
    title: "Why does my camera freeze when I walk?",
    scene:
      "A camera sends live video, and walks from a quiet access point to one where three laptops upload. In the second run it uses TCP-AV. That has a target rate of 3 Mbit/s, and keeps as many packets on their way as it needs.",
    toml: handover,
    set: ['flows.camera.tcp.cc={ name = "tcp_av", target = "3Mbit/s" }'],
    change: "the camera uses TCP-AV",
    watch: "camera",
    steps: [
      { text: "Beside its own access point the camera has the air to itself. Its video of 3 Mbit/s goes through at once.", from_s: 1, speed: "0.1" },
      { text: "After seven seconds it changes to the other one. For 0.3 s it has no connection, and what it sends is lost.", from_s: 6.5, speed: "0.1" },
      { text: "There the access point's queue is full of small answers to the laptops. Answers to the camera are dropped, its timer runs out, and the video freezes. With TCP-AV the first answer lets many packets go at once, and some seconds later the video is back.", from_s: 9, speed: "10" },
    ],
    attempt: "lower the stations “laptops” to 1. Then plain TCP gets in as well. Or change the seed: in some runs neither gets in.",
    finding: "tcp-av-handover/tcp-stays-out-grown",
  },
  {
    id: "efr",
    short: "Why does one lost packet cost seconds?",
    title: "Why does one lost packet cost seconds?",
    scene:
      "Three hosts of 1997 upload over one slow radio channel that loses packets and tells nobody. In the second run their TCP takes fewer hints to believe that a packet was lost (EFR).",
    toml: efr,
    set: ["flows.upload.tcp.loss=efr"],
    change: "fewer repeats tell of a loss (EFR)",
    watch: "",
    steps: [
      { text: "Only a few packets are on their way at once. When one is lost, those behind it make the receiver repeat its last answer.", from_s: 5, speed: "0.01" },
      { text: "Usual TCP waits for three such repeats. With so few packets behind the lost one there are not enough, so it waits for its timer. Watch the row of mh[1] in the first run: it falls silent for three seconds.", from_s: 5, speed: "1" },
      { text: "EFR asks for fewer repeats when few packets are on their way. It waits for the timer less often: compare the timeouts in the table.", from_s: 30, speed: "10" },
    ],
    attempt: "set the system of “mh” to linux-6. Today's Linux has other cures, and EFR adds next to nothing.",
    finding: "efr/fewer-timeouts",
  },
  {
    id: "coop",
    short: "Why does one phone get it all?",
    title: "Why does one phone get it all?",
    scene:
      "Ten phones upload over one access point to a server far away. In the second run each phone counts the others by their announcements, and takes only its share while the queue is long.",
    toml: coop,
    set: ['coop=[{ name = "daemons", nodes = ["phone"], daemon = { bw_max = "learn" } }]'],
    change: "phones that count each other",
    watch: "",
    steps: [
      { text: "All phones start. Each sends more with every answer it gets, and the queues fill.", from_s: 0, speed: "1" },
      { text: "The access point has one queue for the answers to all phones. When it is full, some phones lose many answers, and others few. So the luckiest gets six times what the last one gets: see “one flow” in the table.", from_s: 12, speed: "0.1" },
      { text: "In the second run phones that know of each other hold back. The luckiest gets less than three times what the last one gets, and the round trip is much shorter.", from_s: 20, speed: "1" },
    ],
    attempt: "choose “FQ-CoDel at the AP” as the second run. All get nearly the same without any phone's help, but the round trip stays long.",
    finding: "coop-cwnd/minstrel-unfair-without",
  },
  {
    id: "pacing",
    short: "Do evenly spaced packets need less buffer?",
    title: "Do evenly spaced packets need less buffer?",
    scene:
      "Fifty senders share one line, and the router before it has a small buffer. No radio here. In the second run each sender spaces its packets evenly instead of sending them in bursts.",
    toml: pacing,
    set: ["flows.reno.tcp.pacing=rtt_over_cwnd"],
    change: "evenly spaced packets",
    watch: "",
    steps: [
      { text: "All start and speed up. The buffer fills within the first seconds, and packets are dropped.", from_s: 0, speed: "1" },
      { text: "Watch the queue r1 → r2. In bursts it is full and empty again about once a second. Spaced evenly it takes longer. Each time that it overflows, most of the fifty senders lose a packet.", from_s: 12, speed: "0.1" },
      { text: "Having lost together they slow down together. After that the second run's queue stays empty for longer, and so does the line. Spacing does not fill it better: compare the goodput.", from_s: 15, speed: "10" },
    ],
    attempt: "raise the buffer of line “bottleneck” to 5 times its rule. Which of the two gains more?",
    finding: "pacing-buffers/3a-pacing-does-not",
  },
];

/** What a verdict of a study means, for those who see one for the first time. */
export const VERDICTS: Record<string, string> = {
  reproduced: "all that it claims came out, chance excluded",
  mixed: "a part of what it claims came out",
  not: "it did not come out",
  open: "more runs are needed to exclude chance",
  calibration: "the model was set by it",
  identity: "it follows from how the model is built",
};
