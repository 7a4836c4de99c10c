BEGIN TRANSACTION;
CREATE TABLE accounts (
            subject VARCHAR(160) NOT NULL, resource VARCHAR(16) NOT NULL, cap BIGINT NOT NULL, used BIGINT NOT NULL,
            PRIMARY KEY (subject, resource), CHECK (used >= 0), CHECK (used <= cap));
INSERT INTO "accounts" VALUES('edges:graph','epsilon',8000000000,3000000000);
INSERT INTO "accounts" VALUES('edges:annex','epsilon',4000000000,500000000);
INSERT INTO "accounts" VALUES('tenant:owner','epsilon',4611686018427387904,2000000000);
INSERT INTO "accounts" VALUES('tenant:bob','queries',1000,5);
INSERT INTO "accounts" VALUES('tenant:bob','epsilon',3000000000,1500000000);
INSERT INTO "accounts" VALUES('tenant:carol','queries',50,0);
INSERT INTO "accounts" VALUES('tenant:carol','epsilon',0,0);
CREATE TABLE api_keys (
            id VARCHAR(32) PRIMARY KEY, tenant VARCHAR(80) NOT NULL, role VARCHAR(16) NOT NULL,
            digest VARCHAR(64) NOT NULL, created BIGINT NOT NULL, expires BIGINT, revoked BIGINT,
            note VARCHAR(200) NOT NULL DEFAULT '');
INSERT INTO "api_keys" VALUES('a978af60a84c2e1e','bob','curate','81f08f69c2c804f5846ef5aa7ca99b9406bf7c34fa6c03ee5ab2617afa9a08ce',1794846283,1826382283,NULL,'');
INSERT INTO "api_keys" VALUES('b009858a9a087b8d','carol','query','cc0690325decef21268e9d4e01d05fdcbb817f05f52f81dc4a168ddbb115cf3a',1794846283,1826382283,NULL,'');
CREATE TABLE charges (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, tenant VARCHAR(80) NOT NULL, key_id VARCHAR(32) NOT NULL,
            what VARCHAR(200) NOT NULL, edge_set VARCHAR(120) NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0),
            token VARCHAR(120) NOT NULL, digest VARCHAR(64) NOT NULL, status VARCHAR(16) NOT NULL,
            UNIQUE (tenant, token));
INSERT INTO "charges" VALUES('c1df400eaf0c772a8a0617d7',1794846282,'owner','-','release lapgraph','graph',2000000000,'release-93fa2ba1cdfe26640553fd895e27b7722d2ad561d6c52226857a6cbd7b1787a8','93fa2ba1cdfe26640553fd895e27b7722d2ad561d6c52226857a6cbd7b1787a8','charged');
INSERT INTO "charges" VALUES('c7f00c578518ddbf077d489f',1794846283,'bob','a978af60a84c2e1e','snapshot monday','graph',1000000000,'token-monday','4c745c5b4dbdfb65df973b779b838efe0801f922120fded375b77045eb9f5e44','done');
INSERT INTO "charges" VALUES('2422716ef88506ad77136237',1794846283,'bob','a978af60a84c2e1e','snapshot annex-1','annex',500000000,'token-annex1','06a320c0d794c43c9cebfa6fb8e4d013e1d859719be4a5ad69990b497c5ab05d','done');
CREATE TABLE guard_scores (
            subject VARCHAR(80) NOT NULL, detector VARCHAR(32) NOT NULL, score BIGINT NOT NULL,
            PRIMARY KEY (subject, detector));
CREATE TABLE leases (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, worker VARCHAR(80) NOT NULL,
            subject VARCHAR(160) NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0), returned BIGINT NOT NULL);
INSERT INTO "leases" VALUES('f02d7c7e61b4f24b1b611f94',1794846283,'8881-b618ee71','tenant:bob',64,0);
INSERT INTO "leases" VALUES('4994639793b605cbaaa20aa1',1794846283,'8881-b618ee71','tenant:bob',0,59);
CREATE TABLE meta (name VARCHAR(40) PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('schema','2');
INSERT INTO "meta" VALUES('secret','44f1ff1ecf672be5f16c3e75acf179abfae8c75132de5b407d048f4bee5456b2');
INSERT INTO "meta" VALUES('clock','1794846283');
CREATE TABLE reviews (
            id VARCHAR(32) PRIMARY KEY, at BIGINT NOT NULL, key_id VARCHAR(32) NOT NULL, tenant VARCHAR(80) NOT NULL,
            detector VARCHAR(32) NOT NULL, score BIGINT NOT NULL, action VARCHAR(16) NOT NULL, resolved BIGINT);
CREATE TABLE snapshots (
            id VARCHAR(32) PRIMARY KEY, charge_id VARCHAR(32) NOT NULL UNIQUE, at BIGINT NOT NULL,
            name VARCHAR(120) NOT NULL, edge_set VARCHAR(120) NOT NULL, num_nodes BIGINT NOT NULL,
            manifest VARCHAR(64) NOT NULL);
INSERT INTO "snapshots" VALUES('c7f00c578518ddbf077d489f','c7f00c578518ddbf077d489f',1794846283,'monday','graph',20,'ec0e20cedb6160d051c1567d9b33b6c7044afe710ce3edab35325b656135685f');
INSERT INTO "snapshots" VALUES('2422716ef88506ad77136237','2422716ef88506ad77136237',1794846283,'annex-1','annex',20,'f1279e4059813a8f4fbedb457d3e7f7438a7f7e09333bbf8ef7dd3376305e3b3');
CREATE INDEX charges_by_edge_set ON charges (edge_set);
CREATE INDEX leases_by_subject ON leases (subject);
COMMIT;
