"""Stores that doyen asks: etcd, PostgreSQL, Redis or Valkey, ZooKeeper.  A store's client loads when it is used."""
