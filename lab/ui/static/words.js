// Words of the page in one line each; docs/glossary.md tells more of them. Shown when one is pointed at or reached by Tab.

const WORDS = {
  "lost": "packets that the sender declared lost: nobody acknowledged them in time, or a later one of their path arrived",
  "retransmitted": "packets that were sent another time, over another path; only those that were lost",
  "spurious": "packets that were retransmitted although the first copy had arrived",
  "trimmed": "a full queue cut the packet to its headers and sent those on, so that the receiver asks for it at once",
  "marked": "a queue that was long set an ECN mark on the packet: its sender leaves that path alone for a turn",
  "dropped": "packets that a switch threw away",
  "goodput": "payload bytes per second that were new at the receiver",
  "line": "what a host can receive or send by all its NIC ports together",
  "round trip": "time from a packet's leaving until its acknowledgement came; 1.0 is an empty fabric",
  "window": "packets that a QP may have on the way at a time",
  "EV": "entropy value: 32 bits that name a packet's path, by plane and T0 uplink",
  "QP": "queue pair: one connection of RDMA. An MRC QP sprays its packets over all its EVs",
  "good": "the EV is in use",
  "skip": "in use, left out for a turn because a packet of it was marked",
  "standby": "not in use; takes the place of an EV that was retired",
  "assumed bad": "a packet of it was lost: out of use, probed, and back after three answers",
  "port down": "the NIC port of its plane, here or at the peer, has no carrier",
  "denied": "forbidden: by the operator, for a drain, or by Clustermapper",
  "Clustermapper": "all hosts probe all paths; the cable or switch that all failing probes share is named",
  "Expectations": "what the running scenario promises; each is decided by the history of the run",
  "degraded": "a fault is in force on the cable, and its carrier is up: it loses, delays or damages packets",
};

// A node that shows a word, with its explanation where it has one.
export function explained(word) {
  const node = document.createElement("span");
  node.textContent = word;
  if (WORDS[word]) Object.assign(node, { className: "word", tabIndex: 0, ariaDescription: WORDS[word] }).dataset.says = WORDS[word];
  return node;
}

// Explains what the page itself says: all elements with data-word.
export function explain(root) {
  for (const node of root.querySelectorAll("[data-word]")) {
    const word = node.dataset.word;
    Object.assign(node, { tabIndex: 0, ariaDescription: WORDS[word] }).dataset.says = WORDS[word];
    node.classList.add("word");
  }
}
