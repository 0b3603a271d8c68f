"""Readers of public trace formats: each makes a Scenario, line by line, and names the line it cannot read.

swf      the Standard Workload Format of the Parallel Workloads Archive
philly   Microsoft's Philly GPU cluster, as Pollux filtered it
openb    Alibaba's cluster of shared GPUs (pods and nodes in two files)
pollux   training jobs with measured scalability
gavel    training jobs with measured throughput on unlike GPUs
"""
