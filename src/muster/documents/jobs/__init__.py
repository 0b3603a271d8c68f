"""One job as people write it, for whoever reads job entries: scenarios, job files, the API.

known        what there is to name: queues, clusters, classes, levels
entry        the keys of a job that are about the job as a whole
groups       its task groups, or the one that the short form describes
races        the race of a job over opaque clusters
simulation   what only a simulation can know: when a job comes, how long it really runs, what clusters will show
"""
