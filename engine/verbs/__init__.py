"""The broker's operations by what they are about; `engine.broker` offers all of them.
No rules of topics, groups or delivery: the parts that these call have them."""
