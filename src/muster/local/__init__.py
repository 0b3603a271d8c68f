"""Jobs as processes on this machine, each task under a supervisor of its own (docs/local.md, ADR 36).

records      what is on disk of attempts and tasks: the truth that survives whoever is killed
processes    what the kernel says of processes: children, memory, who belongs to a task
memory       memory limits by control groups, where there is one to be had
supervisor   runs one task to its end and writes down how it ended
launcher     a small process that forks supervisors, so that starting one costs next to nothing
launching    the agent's side of the launcher
machine      what this machine has: cores, memory, GPUs, cut into nodes
environment  what a task is told about itself and its peers
room         whether a task fits beside those that are still about
outcomes     what the ends of tasks mean for their attempt
attempts     one attempt: its folder, its tasks, what there is to tell of it
agent        all attempts: what the server is told and asks for
reading      pieces of logs

Supervisor, launcher and what they use import nothing but the standard library: a launcher is up in milliseconds.
"""
