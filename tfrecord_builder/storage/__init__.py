"""File operations that work the same on local disks and in object stores.

Other packages use files, which calls s3_store or gfile_store for remote paths and members for files inside
archives. directories writes a local directory as a whole, and locks keeps two programs from writing to the
same directory.
"""
