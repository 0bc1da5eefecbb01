"""Message bodies as people read them: JSON, Avro, Protobuf, compressed, as trees and columns.
No page and no search: the pages of messages and dead letters show what is decoded here.
"""
