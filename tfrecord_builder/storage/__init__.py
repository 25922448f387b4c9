"""Files on disks and in object stores under one set of functions.

files is the door. A path with a scheme goes to s3_store or gfile_store, a path inside an archive to
members. locks keeps two programs from writing to the same directory.
"""
