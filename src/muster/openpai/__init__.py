"""OpenPAI: job files for several clusters (`protocolVersion: super-2`), made into one job for each.

jobfile        a file -> JobFile, or one JobFileError with every problem in it
placeholders   `<% $mcc.name %>` replaced by the value that a cluster has for it, type and all
specialise     the job that one cluster gets: no trace of the others, in the spelling its server takes
names          names of such jobs: legal, unique, the same every time
amounts        what such a job asks for; the race of a whole file
writing        such a job as text
"""
